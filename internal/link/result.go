package link

import (
	"github.com/linkforge/linkforge/internal/platform/errs"
)

// MaxBatch is how many links one call may create or change.
const MaxBatch = 1000

// Result is the outcome of one link of a batch: the link, or why there is none.
type Result struct {
	Link *Link
	// Created reports that this call created the link.
	Created bool
	// Revived reports that this call restored the deleted link, with the given fields.
	Revived bool
	// Ignored are the given fields that an existing link has otherwise, as in routing.card.
	Ignored []string
	// Dropped are the restrictions of the deleted link that the revived one does not have, as in
	// routing.gate.password.
	Dropped []string
	// OperationID is the bulk call that wrote a version of the link; empty if it wrote none.
	OperationID string
	Err         error
}

// Operation returns OperationID.
func (r Result) Operation() string { return r.OperationID }

// OperationOf returns the id of the bulk call with these results; nil if it changed nothing.
func OperationOf[R interface{ Operation() string }](results []R) *string {
	for _, r := range results {
		if operationID := r.Operation(); operationID != "" {
			return &operationID
		}
	}
	return nil
}

// Policy determines how a batch handles the failure of a single link.
type Policy string

// The policies.
const (
	// SkipFailed skips links that fail and processes the rest.
	SkipFailed Policy = "SKIP_FAILED"
	// AllOrNothing rolls back the whole batch if any link fails.
	AllOrNothing Policy = "ALL_OR_NOTHING"
)

// CheckBatch returns InvalidInput for a field without links, or with more than MaxBatch.
func CheckBatch(n int, field string) error {
	if n < 1 || n > MaxBatch {
		return errs.New(errs.InvalidInput, "A batch must have 1 to %d links. This batch has %d.", MaxBatch, n).At(field)
	}
	return nil
}

// InternalError returns the first error that is not a user error, or nil.
func InternalError(results []Result) error {
	for _, r := range results {
		if r.Err != nil && !errs.From(r.Err).Kind.IsUserError() {
			return r.Err
		}
	}
	return nil
}

// FailAll fails every result of an AllOrNothing batch if one of them is an error, and reports
// whether one is.
func FailAll(results []Result) bool {
	failed := false
	for _, r := range results {
		failed = failed || r.Err != nil
	}
	for i, r := range results {
		if failed && r.Err == nil {
			results[i] = Result{
				Err: errs.New(errs.Conflict, "Another link of the batch failed, so the batch was rolled back."),
			}
		}
	}
	return failed
}
