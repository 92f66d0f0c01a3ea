package urlnorm

import "fmt"

// Error is the rule that a URL breaks, with the remedy.
type Error struct {
	// Rule is the rule of profile LF-1 that refused the URL, "R1" to "R4".
	Rule string
	// Reason is one sentence fit for users. It never repeats the URL, which may hold secrets or
	// markup.
	Reason string
}

// Error returns the reason.
func (e *Error) Error() string { return e.Reason }

func refuse(rule, reason string) error { return &Error{Rule: rule, Reason: reason} }

func tooLong() error {
	return refuse("R1", fmt.Sprintf("The URL must not be longer than %d bytes, counted with spaces and "+
		"letters outside ASCII percent-encoded.", MaxBytes))
}
