// Area is clicks over time: an area with a hairline, a crosshair that says the number, and the period before as a dashed line.
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';

import { formatCount } from '../ui/kit';

export type Point = { start: string; clicks: number };

const HEIGHT = 240, DAY = 86_400;

const dayFormat = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });

type AreaProps = { points: Point[]; before?: Point[]; format: (start: string) => string };

const darkness = matchMedia('(prefers-color-scheme: dark)');

// useIsDark changes when the system changes its colours, which what is drawn does not follow by itself.
function useIsDark(): boolean {
  const [isDark, setDark] = useState(darkness.matches);
  useEffect(() => {
    const change = () => setDark(darkness.matches);
    darkness.addEventListener('change', change);
    return () => darkness.removeEventListener('change', change);
  }, []);
  return isDark;
}

export function Area({ points, before, format }: AreaProps) {
  const isDark = useIsDark();
  const box = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<number | null>(null);
  useEffect(() => {
    const style = getComputedStyle(box.current!);
    const color = (name: string) => style.getPropertyValue(name);
    const axis = { stroke: color('--ink-soft'), grid: { stroke: color('--line'), width: 1 }, ticks: { show: false }, font: `12px ${color('--font')}` };
    const times = points.map(point => Date.parse(point.start) / 1000);
    const isDaily = times.length < 2 || times[1]! - times[0]! > DAY / 2;
    const days = isDaily ? {
      incrs: [1, 2, 7, 14, 28, 56].map(n => n * DAY),
      values: (_: uPlot, ticks: number[]) => ticks.map(tick => dayFormat.format(tick * 1000)),
    } : {};
    const counts = before?.slice(0, points.length).map(point => point.clicks) ?? [];
    const plot = new uPlot({
      width: box.current!.clientWidth, height: HEIGHT, legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
      scales: { y: { range: (_, __, most) => [0, Math.max(most, 1) * 1.05] } },
      axes: [{ ...axis, ...days, size: 28, grid: { show: false } }, { ...axis, size: 44, values: (_, ticks) => ticks.map(n => Number.isInteger(n) ? formatCount(n) : '') }],
      series: [{}, { stroke: color('--accent'), fill: color('--accent-wash'), width: 1.5, points: { show: points.length === 1 } },
        { stroke: color('--line-strong'), dash: [4, 4], width: 1, points: { show: false } }],
      hooks: { setCursor: [plot => setAt(plot.cursor.idx ?? null)] },
    }, [times, points.map(point => point.clicks), points.map((_, i) => counts[i] ?? null)], box.current!);
    const element = box.current!;
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => (observer.disconnect(), plot.destroy());
  }, [points, before, isDark]);

  const pointed = at === null ? undefined : points[at];
  return (
    <figure class="area">
      <figcaption aria-live="off">
        {pointed ? <>{format(pointed.start)}: <strong>{formatCount(pointed.clicks)}</strong>{before?.[at!] && <span class="soft"> · before: {formatCount(before[at!]!.clicks)}</span>}</> : '\u00a0'}
      </figcaption>
      <div ref={box} aria-hidden="true" />
      <table class="only-heard">
        <caption>Clicks over time</caption>
        <tbody>{points.map(point => <tr key={point.start}><th scope="row">{format(point.start)}</th><td>{point.clicks}</td></tr>)}</tbody>
      </table>
    </figure>
  );
}
