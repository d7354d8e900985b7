-- Manifests are custom sources written in another language: they share the names, the versions and everything that refers
-- to a custom source by its name.
ALTER TABLE custom_sources ADD COLUMN language text NOT NULL DEFAULT 'python';
ALTER TABLE custom_sources ADD CONSTRAINT custom_sources_language_check CHECK (language IN ('python', 'manifest'));
