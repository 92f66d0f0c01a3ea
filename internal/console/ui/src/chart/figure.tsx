// Figure is a number of a period, with its change since the one before that period names.
import { Count, formatCount } from '../ui/kit';

const percents = new Intl.NumberFormat(undefined, { style: 'percent', signDisplay: 'exceptZero', maximumFractionDigits: 0 });

export function Figure({ name, now, before, period }: { name: string; now: number; before?: number; period: string }) {
  const difference = !!before && <small title={`${formatCount(before)} in the ${period}`}>{percents.format(now / before - 1)}</small>;
  return <div><dt>{name}</dt><dd><Count n={now} /> {difference}</dd></div>;
}
