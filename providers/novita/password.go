package novita

import (
	"errors"

	"github.com/gputrain/gputrain/providers/driver"
)

// errPassword is the error of a Config that does not allow a password.
var errPassword = &driver.Error{
	Kind: driver.ErrInvalid,
	Err:  errors.New("its machines allow logins only by a password, and the API reports no host key, so the password goes to any server that answers at first contact"),
	Hint: "set Config.AllowPasswordAtFirstContact if that is acceptable, or rent elsewhere",
}
