/**
 * Whether a figure grows. The slope is that of Theil and Sen, the median of the slopes between all pairs of samples: spikes
 * do not move it. It is significant if the 95 % confidence interval by Kendall's statistic lies above zero. Samples of one minute
 * are reduced to their median first, because neighbours depend on each other.
 */
export interface Sample {
  /** Seconds since the beginning. */
  at: number
  value: number
}

export interface Trend {
  /** Growth over the whole time, by the slope and by the lower end of its confidence interval. */
  grown: number
  atLeast: number
  median: number
}

const BIN_SECONDS = 60
const NORMAL_95 = 1.96

export function findTrend(samples: Sample[]): Trend {
  const bins = reduce(samples)
  const slopes = bins
    .flatMap((a, index) => bins.slice(index + 1).map((b) => (b.value - a.value) / (b.at - a.at)))
    .sort((a, b) => a - b)
  const count = bins.length
  const seconds = samples.at(-1)!.at - samples[0]!.at
  const deviation = Math.sqrt((count * (count - 1) * (2 * count + 5)) / 18)
  const lower = Math.max(0, Math.round((slopes.length - NORMAL_95 * deviation) / 2))
  return {
    grown: (middle(slopes) ?? 0) * seconds,
    atLeast: (slopes[lower] ?? 0) * seconds,
    median: middle(samples.map(({ value }) => value).sort((a, b) => a - b))!,
  }
}

function reduce(samples: Sample[]): Sample[] {
  const bins = Map.groupBy(samples, ({ at }) => Math.floor(at / BIN_SECONDS))
  return [...bins].map(([bin, own]) => ({
    at: bin * BIN_SECONDS,
    value: middle(own.map(({ value }) => value).sort((a, b) => a - b))!,
  }))
}

const middle = (sorted: number[]): number | undefined => sorted[Math.floor(sorted.length / 2)]
