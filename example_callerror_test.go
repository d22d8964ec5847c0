package gputrain_test

import (
	"errors"
	"fmt"

	"github.com/gputrain/gputrain"
)

// apiError is how the client of a made-up cloud tells of an answer that is an error.
type apiError struct{ status int }

func (e apiError) Error() string { return fmt.Sprint("the API answers ", e.status) }

// Answered is false for what a gateway says of an API from which it has heard nothing.
func (e apiError) Answered() bool { return e.status != 502 && e.status != 504 }

// A driver's error says whether its call is over: what was answered with an internal error
// makes nothing later.
func ExampleCallError() {
	for _, status := range []int{500, 504} {
		err := error(&gputrain.Error{Provider: "acme", Op: "launch", Kind: gputrain.ErrUnavailable, Err: apiError{status}})
		var call gputrain.CallError
		fmt.Println(err, errors.As(err, &call) && call.Answered())
	}
	// Output:
	// acme: launch: unavailable: the API answers 500 true
	// acme: launch: unavailable: the API answers 504 false
}
