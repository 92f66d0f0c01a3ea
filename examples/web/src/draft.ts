// The routing while it is edited, before it is saved.
import type {
  ConditionFragment,
  EditedLinkFragment,
  QueryForwardingMode,
  Stickiness,
  VisitConditionInput,
} from './gql/graphql';

export type Condition = VisitConditionInput;
export type Kind = keyof VisitConditionInput;
export type ListKind = 'country' | 'device' | 'os' | 'browser' | 'language' | 'referrer' | 'network';
export type Target = {
  id?: string; // as for a rule
  name: string | null;
  url: string | null; // null: the link's own URL
  share: number | null;
  maxClicks: number | null;
};
export type Rule = {
  id?: string; // of a saved rule; sent again, so that the rule keeps its identity and statistics
  name: string | null;
  enabled: boolean;
  when: Condition[];
  unless: Condition[];
  targets: Target[];
  stickiness: Stickiness;
};

// Draft has the parts of LinkRoutingInput that the page edits. updateLink leaves the others, such as tests, unchanged.
export type Draft = {
  rules: Rule[];
  query: { mode: QueryForwardingMode; only: string[]; except: string[] };
  forwardPath: boolean;
  pendingUrl: string | null;
  endedUrl: string | null;
};

export function emptyDraft(): Draft {
  return { rules: [], query: { mode: 'OFF', only: [], except: [] }, forwardPath: false, pendingUrl: null, endedUrl: null };
}

// toDraft copies a saved routing, without the fields that are not part of the input.
export function toDraft({ rules, query, forwardPath, pendingUrl, endedUrl }: EditedLinkFragment['routing']): Draft {
  return {
    rules: rules.map(rule => ({
      ...rule,
      when: rule.when.map(toInput),
      unless: rule.unless.map(toInput),
      targets: rule.targets.map(({ targetId, name, url, share, maxClicks }) => ({ targetId, name, url, share, maxClicks })),
    })),
    query: structuredClone(query),
    forwardPath,
    pendingUrl,
    endedUrl,
  };
}

// toInput keeps the field of a condition that is not null.
function toInput(condition: ConditionFragment): Condition {
  return Object.fromEntries(Object.entries(condition).filter(([, value]) => value !== null)) as unknown as Condition;
}

export function kindOf(condition: Condition): Kind {
  return Object.keys(condition)[0] as Kind;
}

// listCondition returns a condition of a kind whose value is a list.
export function listCondition(kind: ListKind, list: string[]): Condition {
  return { [kind]: list } as unknown as Condition; // TypeScript does not select a member of the union by a computed key
}

export function newRule(): Rule {
  return { name: null, enabled: true, when: [], unless: [], targets: [newTarget()], stickiness: 'NONE' };
}

export function newTarget(): Target {
  return { name: null, url: null, share: 1, maxClicks: null };
}

// newCondition returns a condition of a kind, which the user completes.
export function newCondition(kind: Kind): Condition {
  switch (kind) {
    case 'query':
      return { query: { name: '', value: null } };
    case 'during':
      return { during: { from: null, to: null } };
    case 'weekly': {
      const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
      const days = ['MONDAY', 'TUESDAY', 'WEDNESDAY', 'THURSDAY', 'FRIDAY'] as const;
      return { weekly: { timezone: timeZone, days: [...days], from: '09:00', to: '17:00' } };
    }
    case 'bot':
      return { bot: true };
    default:
      return listCondition(kind, []);
  }
}

// move moves the element at from to the index to.
export function move<T>(list: T[], from: number, to: number): void {
  list.splice(to, 0, ...list.splice(from, 1));
}
