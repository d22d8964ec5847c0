package gputrain_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

// apiError is an error answer as the client of a made-up cloud reports it.
type apiError struct{ status int }

func (e apiError) Error() string { return fmt.Sprint("the API answers ", e.status) }

// Answered is false if a gateway answered because it got no answer from the API.
func (e apiError) Answered() bool { return e.status != 502 && e.status != 504 }

// A driver's error reports whether its call is over: an API that answered with an internal error
// creates nothing later.
func ExampleCallError() {
	for _, status := range []int{500, 504} {
		err := error(&gputrain.Error{Provider: "acme", Op: "launch", Kind: gputrain.ErrUnavailable, Err: apiError{status}})
		var call driver.CallError
		fmt.Println(err, errors.As(err, &call) && call.Answered())
	}
	// Output:
	// acme: launch: unavailable: the API answers 500 true
	// acme: launch: unavailable: the API answers 504 false
}

// A driver whose create got no answer reports that it looks for what the create made.
func ExamplePoolInfo_Settling() {
	pool := driver.PoolInfo{ID: "digits-k3v9x2mq"}.WithSettling(func(why error, until time.Time) { // as in a test
		fmt.Println("until", until.Format(time.TimeOnly)+":", why)
	})
	asked := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	pool.Settling(errors.New("digits-k3v9x2mq-0 may have been made: POST /instances: EOF"), asked.Add(15*time.Second))
	// Output: until 12:00:15: digits-k3v9x2mq-0 may have been made: POST /instances: EOF
}
