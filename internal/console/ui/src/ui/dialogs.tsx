// Dialogs that several screens open: one form, and secrets that the API returns only when they are created.
import type { ComponentChildren } from 'preact';

import type { UserError } from '../api';
import { Choice, Form, useFields } from './form';
import { Copy, Dialog, type Open } from './kit';

type Submit = () => Promise<UserError[]>;
type FormDialogProps = { title: string; action: string; submit: Submit; close: () => void; children: ComponentChildren };

// FormDialog loses nothing that was typed to a click beside it.
export function FormDialog({ title, action, submit, close, children }: FormDialogProps) {
  return <Dialog title={title} close={close} sticky><Form action={action} submit={submit} cancel={close}>{children}</Form></Dialog>;
}

type OnceProps = { title: string; text?: string; secret: string; close: () => void; children?: ComponentChildren };

// Once shows a secret for the only time.
export function Once({ title, text = '', secret, close, children }: OnceProps) {
  return (
    <Dialog title={title} close={close} sticky locked>
      <p>{text} Store this now: it is not shown again.</p>
      <p class="secret"><code class="grow">{secret}</code><Copy text={secret} name="Copy" /></p>
      {children}
      <footer><button class="button next" onClick={close}>Done</button></footer>
    </Dialog>
  );
}

const OVERLAPS = [['0', 'At once'], ['1', 'In an hour'], ['24', 'In a day'], ['72', 'In three days'], ['167', 'In a week']] as const;

type ReplaceProps = {
  // replace creates the new secret, and ends the present one in hours, below seven days. It calls show with the new one.
  name: string; replace: (hours: number, show: (secret: string) => void) => Promise<UserError[]>; open: Open; close: () => void;
};

export function ReplaceSecret({ name, replace, open, close }: ReplaceProps) {
  const { values, at } = useFields<{ hours: (typeof OVERLAPS)[number][0] }>({ hours: '24' });
  const show = (secret: string) => open(close => <Once title={`The new secret of ${name}`} secret={secret} close={close} />);
  return (
    <FormDialog title={`Replace the secret of ${name}`} action="Replace" submit={() => replace(Number(values.hours), show)} close={close}>
      <Choice label="The present secret ends" {...at('hours')} options={OVERLAPS} hint="Until then, both are valid." />
    </FormDialog>
  );
}
