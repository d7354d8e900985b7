import { maskDestinationConfig, maskSourceConfig } from '../connections/masks.ts'
import type { PipelineConfig } from './config-shape.ts'

export function maskPipelineConfig(config: PipelineConfig): PipelineConfig {
  const { source, destination } = config
  // Overrides of a saved connector are never secrets.
  return {
    ...config,
    source: source.name === undefined ? source : { ...source, ...maskSourceConfig(source.name, source) },
    destination:
      destination.name === undefined || !destination.config
        ? destination
        : { ...destination, config: maskDestinationConfig(destination.name, destination.config) },
  }
}
