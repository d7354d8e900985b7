import { useEffect, useState } from 'react'

/** Seconds since a moment by performance.now(), while something runs. */
export function Elapsed({ since }: { since: number }) {
  const [now, setNow] = useState(() => performance.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 100)
    return () => clearInterval(timer)
  }, [])
  return <span className="number">{Math.max(0, (now - since) / 1000).toFixed(1)} s</span>
}
