package account

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"

	"github.com/linkforge/linkforge/internal/platform/admission"
	"github.com/linkforge/linkforge/internal/platform/errs"
	"github.com/linkforge/linkforge/internal/platform/validate"
)

const (
	minPasswordCharacters = 8
	maxPasswordBytes      = 1024
)

//go:embed common_passwords.txt
var commonPasswords string

// unknownHash is the salt and digest of a bcrypt hash that no password has.
const unknownHash = "Linkforge.knows.nobody.....who.has.this.password....."

// UserPasswords hashes and compares a few passwords of users at once, so that a flood leaves
// processors to redirects. Subjects, such as addresses, take turns, so that a flood from one does
// not keep others waiting. Strangers, who have no account yet, are admitted while nobody else waits,
// and have at most half of the turns and of the time. It returns RateLimited or Unavailable, as
// admission.Queue does.
type UserPasswords struct {
	cost      int
	turns     *admission.Queue
	strangers *admission.Queue // in which networks take turns before turns, where they are one subject
	// rests means that a turn of a stranger is followed by as long a rest of all strangers: half of
	// a single turn is half of its time.
	rests bool
	hash  func(password string, cost int) (string, error)
	// unknown is compared with if there is no account.
	unknown string
}

// strangers is the subject of all calls of HashNew.
const strangers = "strangers"

const (
	// maxWait bounds the wait for a turn, maxWaiting the waiting checks of a subject, and
	// maxAllWaiting those of all.
	maxWait       = 10 * time.Second
	maxWaiting    = 16
	maxAllWaiting = 256
)

// PasswordCost is bcrypt's work factor for users on a server.
const PasswordCost = 12

// NewUserPasswords returns Users, with a work factor of bcrypt. They have half of the processors.
func NewUserPasswords(cost int) *UserPasswords {
	return newUserPasswords(cost, halfOfProcessors(), bcryptOf)
}

func newUserPasswords(cost int, turns int64, hash func(string, int) (string, error)) *UserPasswords {
	half := max(1, turns/2)
	known := admission.Config{
		Name: "log-ins", Capacity: turns, Share: half, Waiting: maxWaiting, AllWaiting: maxAllWaiting, MaxWait: maxWait,
		Last: strangers,
	}
	others := known
	others.Name, others.Capacity, others.Share, others.Last = "registrations", half, half, ""
	return &UserPasswords{
		cost: cost, hash: hash, unknown: fmt.Sprintf("$2a$%02d$%s", cost, unknownHash),
		turns: admission.New(known), strangers: admission.New(others), rests: half == turns,
	}
}

func halfOfProcessors() int64 { return int64(max(1, runtime.GOMAXPROCS(0)/2)) }

// Hash hashes a password. It returns RateLimited or Unavailable.
func (p *UserPasswords) Hash(ctx context.Context, password, subject string) (string, error) {
	turn, err := p.turns.Enter(ctx, 1, subject)
	if err != nil {
		return "", err
	}
	defer turn.Leave()
	return p.hash(password, p.cost)
}

// HashNew is Hash for a network without an account yet.
func (p *UserPasswords) HashNew(ctx context.Context, password, network string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	ofNetwork, err := p.strangers.Enter(ctx, 1, network)
	if err != nil {
		return "", err
	}
	defer ofNetwork.Leave()
	turn, err := p.turns.Enter(ctx, 1, strangers)
	if err != nil {
		return "", err
	}
	rest := time.Duration(0)
	defer func() { turn.LeaveAndRest(rest) }()
	began := time.Now()
	hash, err := p.hash(password, p.cost)
	if p.rests {
		rest = time.Since(began)
	}
	return hash, err
}

// Matches compares a password with a hash, with the errors of Hash. It takes the same time for an
// empty hash, which never matches.
func (p *UserPasswords) Matches(ctx context.Context, hash, password, subject string) (bool, error) {
	turn, err := p.turns.Enter(ctx, 1, subject)
	if err != nil {
		return false, err
	}
	defer turn.Leave()
	matches, err := compare(cmp.Or(hash, p.unknown), password)
	return matches && hash != "", err
}

func bcryptOf(password string, cost int) (string, error) {
	hash, err := bcrypt.GenerateFromPassword(prehash(password), cost)
	if err != nil {
		return "", fmt.Errorf("hashing a password: %w", err)
	}
	return string(hash), nil
}

func compare(hash, password string) (matches bool, err error) {
	err = bcrypt.CompareHashAndPassword([]byte(hash), prehash(password))
	if err != nil && !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		return false, fmt.Errorf("comparing a password: %w", err)
	}
	return err == nil, nil
}

// opaque returns a password as it is compared: with ASCII spaces only and in validate.Normal form,
// as keyboards and systems differ in both (the profile OpaqueString of RFC 8265, section 4.2.2).
func opaque(password string) string {
	return validate.Normal(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Zs, r) {
			return ' '
		}
		return r
	}, password))
}

// prehash avoids bcrypt's limit of 72 bytes; base64 avoids its stop at a zero byte.
func prehash(password string) []byte {
	sum := sha256.Sum256([]byte(opaque(password)))
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

// CheckPassword refuses short and common passwords and the user's own address.
func CheckPassword(password, email string) error {
	password = opaque(password)
	switch {
	case utf8.RuneCountInString(password) < minPasswordCharacters:
		return errs.New(errs.InvalidInput, "The password must have at least %d characters.", minPasswordCharacters).
			At("password")
	case len(password) > maxPasswordBytes:
		return errs.New(errs.InvalidInput, "The password must have at most %d bytes.", maxPasswordBytes).At("password")
	case strings.EqualFold(password, email) || isCommon(password):
		return errs.New(errs.InvalidInput,
			"This password is among the first that anyone would guess. Choose another one.").
			At("password")
	}
	return nil
}

func isCommon(password string) bool {
	if strings.ContainsAny(password, "\n") {
		return false
	}
	return strings.Contains(commonPasswords, "\n"+strings.ToLower(password)+"\n")
}
