package gputrain_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain"
)

// apiError is how the client of a made-up cloud reports an answer that is an error.
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

// A driver whose create was not answered says that it looks for what that has made.
func ExamplePoolInfo_Settling() {
	pool := gputrain.PoolInfo{ID: "digits-k3v9x2mq"}.WithSettling(func(why error, until time.Time) { // a test's
		fmt.Println("until", until.Format(time.TimeOnly)+":", why)
	})
	asked := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	pool.Settling(errors.New("digits-k3v9x2mq-0 may have been made: POST /instances: EOF"), asked.Add(15*time.Second))
	// Output: until 12:00:15: digits-k3v9x2mq-0 may have been made: POST /instances: EOF
}
