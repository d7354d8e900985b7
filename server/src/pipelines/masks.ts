import { maskDestinationConfig, maskSourceConfig } from '../connections/masks.ts'
import type { PipelineConfig } from './config-shape.ts'

export function maskPipelineConfig(config: PipelineConfig): PipelineConfig {
  const { source, destination } = config
  // Beside a saved connector stand only settings that are no secrets.
  return {
    ...config,
    source: source.name === undefined ? source : { ...source, ...maskSourceConfig(source.name, source) },
    destination:
      destination.name === undefined || !destination.config
        ? destination
        : { ...destination, config: maskDestinationConfig(destination.name, destination.config) },
  }
}
