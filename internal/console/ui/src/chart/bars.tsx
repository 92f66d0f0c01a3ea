// Bars are the values of a dimension, with a bar behind each: a click on one filters everything by it.
import { formatCount } from '../ui/kit';

export type Slice = { value: string; label: string; clicks: number; isOther?: boolean };

export function Bars({ title, slices, choose }: { title: string; slices: Slice[]; choose: (value: string) => void }) {
  const most = Math.max(...slices.filter(slice => !slice.isOther).map(slice => slice.clicks), 1);
  return (
    <section class="bars">
      <h2>{title}</h2>
      {slices.length === 0 && <p class="soft">No clicks yet.</p>}
      <ul>
        {slices.map(({ value, label, clicks, isOther }) => {
          const row = (
            <>
              <span class="bar" style={{ width: isOther ? 0 : `${(clicks / most) * 100}%` }} />
              <span class="cut grow"><bdi>{label}</bdi></span><span>{formatCount(clicks)}</span>
            </>
          );
          return <li key={`${isOther} ${value}`}>{isOther ? <div>{row}</div> : <button onClick={() => choose(value)}>{row}</button>}</li>;
        })}
      </ul>
    </section>
  );
}
