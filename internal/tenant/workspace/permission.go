package workspace

import (
	"context"
	"slices"
	"strings"

	"github.com/linkforge/linkforge/internal/platform/db"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/tenant/account"
)

// Role is a member's role. It has all permissions of the lower roles.
type Role string

// The roles in descending order.
const (
	Owner  Role = "OWNER"  // everything
	Admin  Role = "ADMIN"  // members, keys, domains, settings
	Editor Role = "EDITOR" // links
	Viewer Role = "VIEWER" // reading
)

var allRoles = []Role{Owner, Admin, Editor, Viewer}

var rank = map[Role]int{Viewer: 1, Editor: 2, Admin: 3, Owner: 4}

// Permission allows members or API keys an operation.
type Permission string

// The permissions.
const (
	ReadLinks       Permission = "LINKS_READ"
	WriteLinks      Permission = "LINKS_WRITE"
	CreateLinks     Permission = "LINKS_CREATE"
	ReadStats       Permission = "STATS_READ"
	ReadMembers     Permission = "MEMBERS_READ"
	WriteMembers    Permission = "MEMBERS_WRITE"
	WriteOwners     Permission = "OWNERS_WRITE"
	WriteKeys       Permission = "API_KEYS_WRITE"
	ReadDomains     Permission = "DOMAINS_READ"
	WriteDomains    Permission = "DOMAINS_WRITE"
	ReadAudit       Permission = "AUDIT_READ"
	WriteSettings   Permission = "SETTINGS_WRITE"
	DeleteWorkspace Permission = "WORKSPACE_DELETE"
	WriteWebhooks   Permission = "WEBHOOKS_WRITE"
)

// Rule defines who has a permission.
type Rule struct {
	Permission Permission
	// Least is the lowest role that has it.
	Least Role
	// Keys is true if an API key can have it.
	Keys bool
	// Means describes the permission in the documentation.
	Means string
}

// Rules is the table of permissions.
var Rules = []Rule{
	{ReadLinks, Viewer, true, "read links and their quota usage"},
	{WriteLinks, Editor, true, "create, change, delete and claim links; includes LINKS_READ and LINKS_CREATE"},
	{CreateLinks, Editor, true, "create links, without reading any; included in LINKS_WRITE"},
	{ReadStats, Viewer, true, "read stats"},
	{ReadMembers, Viewer, true, "list the members"},
	{WriteMembers, Admin, false, "invite and remove members, change their roles, list and revoke invitations"},
	{WriteOwners, Owner, false, "appoint, change and remove owners, transfer the workspace"},
	{WriteKeys, Admin, false, "list, create and revoke API keys"},
	{ReadDomains, Viewer, true, "list the domains"},
	{WriteDomains, Admin, true, "add, verify and remove domains; includes DOMAINS_READ"},
	{ReadAudit, Admin, true, "read and export the audit log"},
	{WriteSettings, Admin, false, "change the name, the slug and the defaults"},
	{DeleteWorkspace, Owner, false, "delete and restore the workspace"},
	{WriteWebhooks, Admin, true, "see, create, change and delete webhooks and their deliveries"},
}

// implied are the permissions that come with another one.
var implied = map[Permission]Permission{ReadLinks: WriteLinks, CreateLinks: WriteLinks, ReadDomains: WriteDomains}

// IsPublishable reports whether anyone may read an API key, because it does nothing but create
// links; false for nil.
func IsPublishable(key *account.Key) bool {
	return key != nil && len(key.Scopes) == 1 && key.Scopes[0] == string(CreateLinks)
}

// IsPublishable reports whether the membership is that of a publishable API key.
func (m Membership) IsPublishable() bool { return IsPublishable(m.key) }

// LinksPerDay returns how many links a publishable key may create on a day, if it has its own
// quota; nil means the default.
func (m Membership) LinksPerDay() *int { return m.key.LinksPerDay }

// KeyID returns the id of the API key; empty for a member.
func (m Membership) KeyID() string {
	if m.key == nil {
		return ""
	}
	return m.key.ID
}

// HasDestinationHosts reports whether MayLeadTo forbids any host.
func (m Membership) HasDestinationHosts() bool {
	return m.key != nil && len(m.key.DestinationHosts) > 0
}

// MayLeadTo returns InvalidInput unless links of the membership, which has destination hosts, may
// lead to a canonical host.
func (m Membership) MayLeadTo(host string) *errs.Error {
	for _, allowed := range m.key.DestinationHosts {
		if host == strings.TrimPrefix(allowed, ".") ||
			strings.HasPrefix(allowed, ".") && strings.HasSuffix(host, allowed) {
			return nil
		}
	}
	return errs.New(errs.InvalidInput, "The API key may not lead visitors to this host: it is limited to %s.",
		strings.Join(m.key.DestinationHosts, ", "))
}

func ruleOf(p Permission) Rule {
	return Rules[slices.IndexFunc(Rules, func(r Rule) bool { return r.Permission == p })]
}

// Allows reports whether a member of role r has the permission.
func (r Role) Allows(p Permission) bool { return rank[r] >= rank[ruleOf(p).Least] }

// RolesWith returns the roles that have the permission.
func RolesWith(p Permission) []Role {
	return slices.DeleteFunc(slices.Clone(allRoles), func(r Role) bool { return !r.Allows(p) })
}

// reads reports whether the permission changes nothing.
func (p Permission) reads() bool { return strings.HasSuffix(string(p), "_READ") }

// May reports whether the member, or the API key, has the permission.
func (m Membership) May(p Permission) bool { return m.row != nil && m.refusal(p) == nil }

// proveFactor is how a session without a second factor gets one.
const proveFactor = "enroll an authenticator app with enrollTotp and confirmTotp, then refresh the session or log in " +
	"again."

// refusal returns Forbidden with the remedy unless the member or API key has the permission.
func (m Membership) refusal(p Permission) error {
	switch {
	case m.key != nil && m.row != nil:
		return CheckKey(m.key, p)
	case m.row == nil || !m.role.Allows(p):
		return errs.New(errs.Forbidden, "This operation requires the role %s. Your role is %s.", ruleOf(p).Least,
			m.role)
	case m.lacksSecondFactor && m.row.RequireSecondFactor:
		return errs.New(errs.Forbidden, "This workspace requires a second factor: "+proveFactor)
	case m.isUnverified && !p.reads():
		return errUnverified()
	}
	return nil
}

func errUnverified() error {
	return errs.New(errs.Forbidden,
		"Verify your e-mail address first: call verifyEmail with the token that was sent to it, "+
			"or requestEmailVerification for another one.")
}

// CheckKey returns Forbidden unless the API key's scopes include the permission, and its fence
// permits it.
func CheckKey(key *account.Key, p Permission) error {
	if !ruleOf(p).Keys {
		return errs.New(errs.Forbidden, "This operation requires a logged-in user. API keys are not accepted.")
	}
	if fenceOf(key) != nil {
		if err := CheckFence(p); err != nil {
			return err
		}
	}
	if slices.Contains(key.Scopes, string(p)) || slices.Contains(key.Scopes, string(implied[p])) {
		return nil
	}
	return errs.New(errs.Forbidden, "This operation requires an API key with the scope %s.", p)
}

// Enter returns a context whose statements see this workspace only, or Forbidden if the member
// lacks the permission. Every method with tenant data starts with it: without it, statements see no
// rows.
func (m Membership) Enter(ctx context.Context, p Permission) (context.Context, error) {
	if err := m.refusal(p); err != nil {
		return ctx, err
	}
	return db.InWorkspace(ctx, m.row.ID, m.accountID), nil
}

// roleFor returns the lowest role that allows a key's scopes.
func roleFor(key *account.Key) Role {
	role := Viewer
	for _, r := range Rules {
		if slices.Contains(key.Scopes, string(r.Permission)) && rank[r.Least] > rank[role] {
			role = r.Least
		}
	}
	return role
}

// Permissions returns all permissions of the member or API key.
func (m Membership) Permissions() []Permission {
	all := []Permission{}
	for _, r := range Rules {
		if m.May(r.Permission) {
			all = append(all, r.Permission)
		}
	}
	return all
}
