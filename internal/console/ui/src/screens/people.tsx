// People: the members of a workspace, their roles, and invitations.
import { useLocation } from 'preact-iso';

import { send } from '../api';
import { reloadMe, usePlace } from '../app';
import {
  InviteMemberDocument, PeopleDocument, type PeopleQuery, RemoveMemberDocument, RevokeInvitationDocument, type Role,
  TransferOwnershipDocument, UpdateMemberRoleDocument,
} from '../gql/graphql';
import { FormDialog, Once } from '../ui/dialogs';
import { Choice, Text, useFields } from '../ui/form';
import { Badge, Menu, Missing, Time } from '../ui/kit';
import { Icon } from '../ui/icon';
import { type Adding, Line, Page, Rows, useScreen } from '../ui/page';

const ROLES: readonly (readonly [Role, string])[] = [['OWNER', 'Owner'], ['ADMIN', 'Admin'], ['EDITOR', 'Editor'], ['VIEWER', 'Viewer']];
const nameOf = (role: Role) => ROLES.find(([one]) => one === role)![1];

type AnyMember = NonNullable<NonNullable<PeopleQuery['workspace']>['members']>['nodes'][number];
type Member = AnyMember & { user: NonNullable<AnyMember['user']> };

const isKnown = (member: AnyMember): member is Member => member.user !== null;

export function People() {
  const { user: me, workspace, may, base } = usePlace();
  const { route } = useLocation();
  const canWrite = may('MEMBERS_WRITE'), mayOwn = may('OWNERS_WRITE');
  const screen = useScreen(PeopleDocument, { by: { id: workspace.id }, isManager: canWrite });
  const { confirm, act } = screen;
  const roles = ROLES.filter(([role]) => role !== 'OWNER' || mayOwn);

  const inputOf = (member: Member) => ({ workspaceId: workspace.id, userId: member.user.id });
  const setRole = (member: Member, role: Role, undo?: () => Promise<unknown>) => act(UpdateMemberRoleDocument,
    { input: { ...inputOf(member), role } }, `${member.user.name}: ${nameOf(role)}.`, { undo, then: reloadMe });
  const transfer = (member: Member) => confirm({
    title: `Transfer ${workspace.name} to ${member.user.name}?`, action: 'Transfer',
    text: 'You become an admin. Only the new owner can undo that.',
    confirm: () => act(TransferOwnershipDocument, { input: inputOf(member) }, 'The workspace is transferred.', { then: reloadMe }),
  });
  const remove = (member: Member) => confirm({
    title: `Remove ${member.user.name}?`, text: 'Their links, keys and planned changes stay. Their invitations and webhooks end.',
    action: 'Remove', confirm: () => act(RemoveMemberDocument, { input: inputOf(member) }, `${member.user.name} is removed.`),
  });
  const leave = (member: Member) => confirm({
    title: `Leave ${workspace.name}?`, text: 'Only an invitation brings you back. Your webhooks and invitations end.', action: 'Leave',
    confirm: () => act(RemoveMemberDocument, { input: inputOf(member) }, `You have left ${workspace.name}.`,
      { then: async () => (await reloadMe(), route('/app')) }),
  });
  const invite = canWrite && screen.add('Invite', props => <Invite roles={roles} {...props} />);
  return (
    <Page title="People" screen={screen} actions={invite}>
      {({ workspace: shown }) => (
        <>
          <p class="soft">
            {shown?.requireSecondFactor ? 'Members need a second factor or single sign-on.' : 'Members can log in without a second factor.'}
            {may('SETTINGS_WRITE') && <> <a href={`${base}/settings`}>Change that</a></>}
          </p>
          <Rows label="Members" of={shown?.members} screen={screen}>
            {member => {
              if (!isKnown(member)) return <Missing what="This member" />;
              const { user: { id, name, email, emailVerified }, role } = member;
              const mayChange = canWrite && (mayOwn || role !== 'OWNER'), isMe = id === me.id;
              return (
                <Line name={<><strong dir="auto">{name}</strong>{isMe && ' (you)'}</>}
                  text={email + (emailVerified ? '' : ', unverified')}>
                  {typeof member.hasSecondFactor === 'boolean' && <small class="wide">{member.hasSecondFactor ? 'second factor' : 'no second factor'}</small>}
                  <small class="wide">joined <Time at={member.joinedAt} /></small>
                  {mayChange ? (
                    <select class="input pick" aria-label={`Role of ${name}`} value={role}
                      onChange={event => setRole(member, event.currentTarget.value as Role, () => setRole(member, role))}>
                      {roles.map(([role, text]) => <option value={role} key={role}>{text}</option>)}
                    </select>
                  ) : <Badge>{nameOf(role)}</Badge>}
                  <Menu label={`Actions for ${name}`} items={[
                    mayOwn && !isMe && { label: 'Transfer the workspace', act: () => transfer(member) },
                    isMe && { label: 'Leave', danger: true, act: () => leave(member) },
                    mayChange && !isMe && { label: 'Remove', danger: true, act: () => remove(member) },
                  ]}><Icon name="more" /></Menu>
                </Line>
              );
            }}
          </Rows>
          {canWrite && <h2>Invitations</h2>}
          {canWrite && <Rows label="The invitations" of={shown?.invitations} empty={<p class="soft">None are open.</p>}>
            {({ id, email, role, expiresAt, invitedBy }) => (
              <Line name={email} text={invitedBy && `invited by ${invitedBy.name}`}>
                <small class="wide">ends <Time at={expiresAt} /></small><Badge>{nameOf(role)}</Badge>
                <button class="button" onClick={() => act(RevokeInvitationDocument, { input: { id } }, 'It has ended.')}>Revoke</button>
              </Line>
            )}
          </Rows>}
        </>
      )}
    </Page>
  );
}

function Invite({ roles, close, done, open }: Adding & { roles: typeof ROLES }) {
  const { workspace } = usePlace();
  const { values, at } = useFields({ email: '', role: 'EDITOR' as Role });
  const submit = () => send(InviteMemberDocument, { input: { workspaceId: workspace.id, ...values } }, ({ token }) => {
    done();
    open(close => <Once title={`${values.email} is invited`} secret={`${location.origin}/invitation#${token}`} close={close}
      text="If this server sends mail, it has sent this link. Otherwise send it yourself. It is valid for 7 days." />);
  });
  return (
    <FormDialog title={`Invite to ${workspace.name}`} action="Invite" submit={submit} close={close}>
      <Text label="E-mail" {...at('email')} type="email" autofocus />
      <Choice label="Role" {...at('role')} options={roles} hint="Viewers read, editors change links, admins also people and keys." />
    </FormDialog>
  );
}
