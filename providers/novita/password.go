package novita

import (
	"errors"

	"github.com/gputrain/gputrain"
)

// errPassword is the error of a user's Config that does not allow it.
var errPassword = &gputrain.Error{
	Kind: gputrain.ErrInvalid,
	Err:  errors.New("its machines let in by a password alone, and tell no host key, so that the password goes to whoever answers at first contact"),
	Hint: "set Config.AllowPasswordAtFirstContact if that is acceptable, or rent elsewhere",
}
