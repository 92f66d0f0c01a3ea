package gen

// CreateLinkInput is written by hand: its fields of the link are those of NewLinkInput, which gqlgen would repeat.
type CreateLinkInput struct {
	NewLinkInput
	WorkspaceID    string
	IdempotencyKey *string
}
