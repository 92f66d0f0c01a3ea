package account

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"

	"github.com/linkforge/linkforge/internal/errs"
)

const (
	minPasswordCharacters = 8
	maxPasswordBytes      = 1024
)

//go:embed common_passwords.txt
var commonPasswords string

// maxWaiting is how many may wait for their turn to hash: the last of them some ten seconds.
const maxWaiting = 32

// nobodys is the salt and the rest of a bcrypt hash that nobody's password has.
const nobodys = "Linkforge.knows.nobody.....who.has.this.password....."

// Passwords hashes passwords and compares them, on half of the processors: a flood of log-ins waits for its turn,
// and is turned away beyond maxWaiting, instead of taking the processors from the redirects.
type Passwords struct {
	cost int
	// turns has a place for everyone who hashes, queue one for them and everyone who waits.
	turns, queue chan struct{}
	// nobody is a hash like everybody's, compared with when there is no account.
	nobody []byte
}

// cost is bcrypt's work factor.
const cost = 12

// cheap makes it the least that bcrypt can do, for servers that tests start: else a tenth of their time would go into passwords. Only a
// linker can set it, and nothing that is released is linked so.
var cheap string

// NewPasswords prepares bcrypt at the cost that Linkforge uses.
func NewPasswords() *Passwords {
	if cheap != "" {
		return newPasswords(bcrypt.MinCost)
	}
	return newPasswords(cost)
}

func newPasswords(cost int) *Passwords {
	turns := max(1, runtime.GOMAXPROCS(0)/2)
	return &Passwords{
		cost: cost, turns: make(chan struct{}, turns), queue: make(chan struct{}, turns+maxWaiting),
		nobody: fmt.Appendf(nil, "$2a$%02d$%s", cost, nobodys),
	}
}

func (p *Passwords) hash(ctx context.Context, password string) (string, error) {
	if err := p.wait(ctx); err != nil {
		return "", err
	}
	defer p.done()
	hash, err := bcrypt.GenerateFromPassword(prehash(password), p.cost)
	if err != nil {
		return "", fmt.Errorf("hashing a password: %w", err)
	}
	return string(hash), nil
}

// matches takes the same time whether or not there is a hash to compare with.
func (p *Passwords) matches(ctx context.Context, hash, password string) (bool, error) {
	if err := p.wait(ctx); err != nil {
		return false, err
	}
	defer p.done()
	known := hash != ""
	if !known {
		hash = string(p.nobody)
	}
	err := bcrypt.CompareHashAndPassword([]byte(hash), prehash(password))
	if err != nil && !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
		return false, fmt.Errorf("comparing a password: %w", err)
	}
	return known && err == nil, nil
}

func (p *Passwords) wait(ctx context.Context) error {
	select {
	case p.queue <- struct{}{}:
	default:
		return errBusy()
	}
	select {
	case p.turns <- struct{}{}:
		return nil
	case <-ctx.Done():
		<-p.queue
		return errBusy().Because(ctx.Err())
	}
}

func (p *Passwords) done() {
	<-p.turns
	<-p.queue
}

func errBusy() *errs.Error {
	return errs.New(errs.Unavailable, "Too many people are logging in at this moment. Please try again.")
}

// prehash keeps bcrypt from cutting long passwords at its 72 bytes; base64 keeps it from stopping at a zero byte.
func prehash(password string) []byte {
	sum := sha256.Sum256([]byte(password))
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

// checkPassword refuses what is guessed first: short passwords, common ones, one's own address.
func checkPassword(password, email string) error {
	switch {
	case utf8.RuneCountInString(password) < minPasswordCharacters:
		return errs.New(errs.InvalidInput, "The password must have at least %d characters.", minPasswordCharacters).At("password")
	case len(password) > maxPasswordBytes:
		return errs.New(errs.InvalidInput, "The password must have at most %d bytes.", maxPasswordBytes).At("password")
	case strings.EqualFold(password, email) || isCommon(password):
		return errs.New(errs.InvalidInput, "This password is among the first that anyone would guess. Choose another one.").At("password")
	}
	return nil
}

func isCommon(password string) bool {
	if strings.ContainsAny(password, "\n") {
		return false
	}
	return strings.Contains(commonPasswords, "\n"+strings.ToLower(password)+"\n")
}
