// The colours: those of the system, or those that the viewer has chosen in this browser.
const KEY = 'linkforge.theme';

export type Theme = 'light' | 'dark' | 'system';

export const THEMES: readonly (readonly [Theme, string])[] = [
  ['system', 'System theme'], ['light', 'Light theme'], ['dark', 'Dark theme'],
];

export const theme = () => (localStorage.getItem(KEY) ?? 'system') as Theme;

// wear puts the colours on before anything is drawn; charts take them over when they are drawn.
export const wear = () => { document.documentElement.dataset['theme'] = theme(); };

export function choose(chosen: Theme): void {
  localStorage.setItem(KEY, chosen);
  location.reload();
}
