// Sparkline is a row's clicks over time: a line of 80 × 24 px, without axes.
const WIDTH = 80, HEIGHT = 24, PAD = 2;

export function Sparkline({ counts }: { counts: number[] }) {
  const most = Math.max(...counts, 1), step = (WIDTH - 2 * PAD) / Math.max(counts.length - 1, 1);
  const points = counts.map((n, i) => `${(PAD + i * step).toFixed(1)},${(HEIGHT - PAD - (n / most) * (HEIGHT - 2 * PAD)).toFixed(1)}`);
  const sum = counts.reduce((a, b) => a + b, 0);
  return (
    <svg class="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} role="img" aria-label={`${sum} clicks in ${counts.length} days`}>
      <polyline points={points.join(' ')} fill="none" stroke={sum ? 'var(--accent)' : 'var(--line)'} stroke-width="1.5" stroke-linejoin="round" />
    </svg>
  );
}
