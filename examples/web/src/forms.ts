// What all forms of the page have in common: sending, user errors at their fields, and the status line.
import type { CombinedError } from '@urql/core';

import { element } from './dom';

export type Mend = { message: string; field?: string[] | null };

// submitted handles a form, which cannot be sent twice at once. It takes the value of the button that was pressed.
export function submitted(handle: (form: HTMLFormElement, pressed: string) => Promise<unknown>) {
  return async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const buttons = form.querySelectorAll('button');
    mend(form, []);
    say('');
    for (const button of buttons) button.disabled = true;
    try {
      await handle(form, (event.submitter as HTMLButtonElement | null)?.value ?? '');
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  };
}

// mend shows what is wrong with a form, each at its field.
export function mend(form: HTMLFormElement, errors: Mend[]) {
  for (const input of form.querySelectorAll('input')) {
    const problem = errors.find(e => e.field?.[0] === input.name);
    input.toggleAttribute('aria-invalid', false);
    input.parentElement!.querySelector('em')?.remove();
    if (!problem) continue;
    const note = document.createElement('em');
    note.id = `${form.id}-${input.name}-problem`;
    note.textContent = problem.message;
    input.setAttribute('aria-invalid', 'true');
    input.setAttribute('aria-describedby', note.id);
    input.after(note);
  }
  const wrong = form.querySelector<HTMLInputElement>('[aria-invalid]');
  if (wrong) wrong.focus();
  const elsewhere = errors.filter(e => !e.field?.[0] || !form.elements.namedItem(e.field[0]));
  if (errors.length > 0) say(elsewhere.map(e => e.message).join(' '), true);
}

export function complain(error: CombinedError) {
  say(error.networkError ? 'The server does not answer.' : error.graphQLErrors.map(e => e.message).join(' '), true);
}

export function say(sentence: string, wrong = false) {
  element('status').textContent = sentence;
  element('status').classList.toggle('wrong', wrong);
}
