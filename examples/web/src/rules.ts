// The fields of the rules. Edits of a value change the draft in place; edits of the structure render the rules again.
import { kindField, valueFields } from './conditions';
import { button, create } from './dom';
import { type Condition, type Draft, move, newCondition, newRule, newTarget, type Rule, type Target } from './draft';
import { checkbox, marked, numberField, type Path, selectField, textField } from './fields';
import type { ExplainRedirectQuery } from './gql/graphql';

export type Explanation = NonNullable<ExplainRedirectQuery['explainRedirect']>;

// Editing is what the fields of a rule have in common.
type Editing = {
  draft: Draft;
  edited: () => void; // after each edit of a value
  restructure: (focus: string) => void; // after an edit of the structure: renders, and focuses the element with this key
};

const STICKINESS = { NONE: 'Draw at each visit', VISITOR: 'Same network and browser', COOKIE: 'Cookie' };

// renderRules shows the rules of a draft in a container.
export function renderRules(container: HTMLElement, draft: Draft, edited: () => void): void {
  const editing: Editing = {
    draft,
    edited,
    restructure: focus => {
      renderRules(container, draft, edited);
      focusKey(container, focus);
      edited();
    },
  };
  const list = create('ol', { className: 'rules' }, ...draft.rules.map((rule, i) => ruleItem(editing, rule, i)));
  const add = keyed('add', 'Add rule', () => {
    draft.rules.push(newRule());
    editing.restructure(`rules/${draft.rules.length - 1}/name`);
  });
  container.replaceChildren(list, add);
}

// keyed returns a button that focusKey finds after the rules are rendered again.
function keyed(key: string, label: string, press: () => void, describe = label) {
  const created = button(label, press);
  created.dataset['key'] = key;
  created.ariaLabel = describe;
  return created;
}

function focusKey(container: HTMLElement, key: string): void {
  const escaped = CSS.escape(key);
  const selector = `[data-key="${escaped}"], [data-path="${escaped}"]`;
  const found = container.querySelector<HTMLButtonElement | HTMLInputElement>(selector);
  const name = CSS.escape(`${/^rules\/\d+/.exec(key)?.[0] ?? ''}/name`);
  const nearest = container.querySelector<HTMLElement>(`[data-path="${name}"], [data-key="add"]`);
  if (found && !found.disabled) found.focus();
  else nearest?.focus();
}

function ruleItem(editing: Editing, rule: Rule, i: number): HTMLElement {
  const path = ['rules', i];
  const name = { label: 'Name', path: [...path, 'name'], value: rule.name ?? '', placeholder: 'optional' };
  const at = [...path, 'stickiness'];
  const sticky = { label: 'Choice of the target', path: at, value: rule.stickiness, choices: STICKINESS };
  const title = create('h4', { textContent: `Rule ${i + 1}` });
  const item = create(
    'li',
    { className: 'rule' },
    create('div', { className: 'bar' }, title, badge(), ...ruleButtons(editing, i)),
    create('p', { className: 'outcome' }),
    create(
      'div',
      { className: 'fields' },
      textField(name, typed => ((rule.name = typed || null), editing.edited())),
      checkbox('Enabled', rule.enabled, checked => ((rule.enabled = checked), editing.edited())),
    ),
    conditionList(editing, rule.when, [...path, 'when'], 'When all of these hold', 'Add condition'),
    conditionList(editing, rule.unless, [...path, 'unless'], 'Unless one of these holds', 'Add exception'),
    targetList(editing, rule, path),
    selectField(sticky, chosen => ((rule.stickiness = chosen), editing.edited())),
  );
  item.setAttribute('aria-label', `Rule ${i + 1}`);
  return marked(path, item);
}

function badge() {
  return create('span', { className: 'badge', hidden: true });
}

function ruleButtons({ draft, restructure }: Editing, i: number): HTMLElement[] {
  const { rules } = draft;
  const moveButton = (label: string, direction: string, to: number) => {
    const moving = keyed(`rules/${i}/${direction}`, label, () => {
      move(rules, i, to);
      restructure(`rules/${to}/${direction}`);
    }, `Move rule ${i + 1} ${direction}`);
    moving.disabled = to < 0 || to >= rules.length;
    return moving;
  };
  const remove = keyed(`rules/${i}/remove`, 'Remove', () => {
    rules.splice(i, 1);
    restructure(i < rules.length ? `rules/${i}/name` : 'add');
  }, `Remove rule ${i + 1}`);
  return [moveButton('↑', 'up', i - 1), moveButton('↓', 'down', i + 1), remove];
}

function conditionList(editing: Editing, list: Condition[], path: Path, title: string, label: string): HTMLElement {
  const { restructure } = editing;
  const rule = Number(path[1]) + 1;
  const items = list.map((condition, i) => conditionItem(editing, list, condition, [...path, i]));
  const add = keyed([...path, 'add'].join('/'), label, () => {
    list.push(newCondition('country'));
    restructure([...path, list.length - 1, 'kind'].join('/'));
  }, `${label} to rule ${rule}`);
  const section = create('div', { className: 'part', role: 'group', ariaLabel: `${title}, rule ${rule}` });
  section.append(create('h5', { textContent: title }), create('ul', {}, ...items), add);
  return marked(path, section);
}

function conditionItem({ edited, restructure }: Editing, list: Condition[], condition: Condition, path: Path): HTMLElement {
  const i = Number(path.at(-1));
  const set = (changed: Condition) => ((list[i] = changed), edited());
  const setKind = (changed: Condition) => ((list[i] = changed), restructure([...path, 'kind'].join('/')));
  const noun = path[2] === 'when' ? 'condition' : 'exception';
  const remove = keyed([...path, 'remove'].join('/'), 'Remove', () => {
    list.splice(i, 1);
    restructure([...path.slice(0, -1), 'add'].join('/'));
  }, `Remove ${noun} ${i + 1} of rule ${Number(path[1]) + 1}`);
  const fields = [kindField(condition, path, setKind), valueFields(condition, path, set)];
  return marked(path, create('li', { className: 'condition' }, ...fields, remove));
}

function targetList({ edited, restructure }: Editing, rule: Rule, path: Path): HTMLElement {
  const { targets } = rule;
  const at = [...path, 'targets'];
  const number = Number(path[1]) + 1;
  const items = targets.map((target, i) => {
    const remove = keyed([...at, i, 'remove'].join('/'), 'Remove', () => {
      targets.splice(i, 1);
      restructure([...at, 'add'].join('/'));
    }, `Remove target ${i + 1} of rule ${number}`);
    remove.disabled = targets.length === 1;
    const fields = targetFields(target, [...at, i], edited);
    return marked([...at, i], create('li', { className: 'target' }, badge(), ...fields, remove));
  });
  const add = keyed([...at, 'add'].join('/'), 'Add target', () => {
    targets.push(newTarget());
    restructure([...at, targets.length - 1, 'url'].join('/'));
  }, `Add target to rule ${number}`);
  const section = create('div', { className: 'part', role: 'group', ariaLabel: `Targets of rule ${number}` });
  section.append(create('h5', { textContent: 'Redirect to' }), create('ol', {}, ...items), add);
  return marked(at, section);
}

function targetFields(target: Target, path: Path, edited: () => void): HTMLElement[] {
  const url = { label: 'URL', path: [...path, 'url'], value: target.url ?? '', type: 'url', placeholder: "the link's URL" };
  const name = { label: 'Name', path: [...path, 'name'], value: target.name ?? '', placeholder: 'optional' };
  const share = { label: 'Share', path: [...path, 'share'], value: target.share, min: 0, max: 1000, placeholder: '1' };
  const limit = { label: 'Max. clicks', path: [...path, 'maxClicks'], value: target.maxClicks, min: 1, placeholder: 'any' };
  return [
    textField(url, typed => ((target.url = typed.trim() || null), edited())),
    textField(name, typed => ((target.name = typed || null), edited())),
    numberField(share, typed => ((target.share = typed), edited())),
    numberField(limit, typed => ((target.maxClicks = typed), edited())),
  ];
}

// showDecision marks the rule that decides, its candidates, and why each of the other rules does not hold; null: no marks.
export function showDecision(container: HTMLElement, explanation: Explanation | null): void {
  container.querySelectorAll<HTMLElement>('.rule').forEach((item, i) => {
    const decides = explanation?.ruleIndex === i;
    const steps = explanation?.steps.filter(step => step.ruleIndex === i) ?? [];
    item.classList.toggle('decides', decides);
    setBadge(item, decides ? 'Decides this visit' : '');
    const untried = explanation ? 'Not tried for this visit.' : '';
    item.querySelector('.outcome')!.textContent = steps.map(step => step.detail).join(' ') || untried;
    const failing = steps.find(step => step.conditionIndex !== null)?.conditionIndex;
    item.querySelectorAll('.condition').forEach((condition, n) => condition.classList.toggle('fails', n === failing));
    const decision = decides ? explanation : null;
    item.querySelectorAll<HTMLElement>('.target').forEach((target, n) => markTarget(target, n, decision));
  });
}

function markTarget(item: HTMLElement, index: number, decision: Explanation | null): void {
  const candidate = decision?.candidates.includes(index) ?? false;
  const certain = decision?.candidates.length === 1;
  item.classList.toggle('candidate', candidate);
  const drawn = index === decision?.targetIndex ? 'Candidate, largest share' : 'Candidate';
  setBadge(item, !candidate ? '' : certain ? 'Chosen' : drawn);
}

function setBadge(item: HTMLElement, text: string): void {
  const found = item.querySelector<HTMLElement>('.badge')!;
  found.textContent = text;
  found.hidden = text === '';
}
