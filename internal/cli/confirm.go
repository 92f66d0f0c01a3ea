package cli

// asking is the flag of commands whose effect cannot be undone, or not by members.
type asking struct {
	Yes bool `help:"Do not ask."`
}

// confirm asks the question on a terminal. It returns an error unless the answer is yes, or --yes
// has been given.
func (a asking) confirm(io IO, question string) error {
	if a.Yes {
		return nil
	}
	return confirm(io, question)
}
