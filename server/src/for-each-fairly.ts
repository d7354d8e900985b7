/**
 * Work on items of many organizations with limited concurrency, overall and per organization, so that one
 * organization's problems do not delay the others.
 */

const LANES = 16
const LANES_PER_ORGANIZATION = 4

/** Processes all items and returns how many succeeded. A failure is reported and does not stop the others. */
export async function forEachFairly<Item extends { organization_id: string }>(
  items: readonly Item[],
  act: (item: Item) => Promise<unknown>,
  onError: (error: Error) => void,
): Promise<number> {
  const lanes = new Map<string, Item[]>()
  items.forEach((item, index) => {
    const lane = `${index % LANES_PER_ORGANIZATION} ${item.organization_id}`
    const queue = lanes.get(lane)
    if (queue) queue.push(item)
    else lanes.set(lane, [item])
  })
  // The first lane of every organization comes before the second lane of any.
  const waiting = [...lanes.keys()].sort()
  let done = 0
  const work = async () => {
    for (let lane = waiting.shift(); lane !== undefined; lane = waiting.shift())
      for (const item of lanes.get(lane)!)
        await act(item).then(
          () => {
            done += 1
          },
          (error: Error) => onError(error),
        )
  }
  await Promise.all(Array.from({ length: LANES }, work))
  return done
}
