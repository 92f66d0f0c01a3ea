//go:build cheap_passwords

package account

import "golang.org/x/crypto/bcrypt"

// cost is the least that bcrypt can do, for servers that tests start: else a tenth of their time would go into passwords. Nothing
// that is released is built with this tag.
const cost = bcrypt.MinCost
