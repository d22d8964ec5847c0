package gputrain_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
)

// untouched is a provider that must not be opened.
type untouched struct{}

func (untouched) Name() string { return "untouched" }

func (untouched) Open(context.Context) (driver.Driver, error) {
	return nil, errors.New("the provider was opened")
}

// mistaken is a program that makes a mistake before Open.
var mistaken = e2etest.NewRole("register/mistaken", func(mistake string) error {
	gputrain.ForgetInit()
	again := func(context.Context, int) (int, error) { return 0, nil }
	switch mistake {
	case "two functions of one name":
		gputrain.Func("examples/double", again)
	case "a bad name":
		gputrain.ConsumerFunc("no spaces please", func(context.Context, iter.Seq[int]) (int, error) { return 0, nil })
	case "a type that cannot travel":
		gputrain.Func("register/channel", func(context.Context, chan int) (int, error) { return 0, nil })
	}
	if mistake != "no Init" {
		gputrain.Init()
	}
	for _, open := range []func() (*gputrain.Compute, error){
		func() (*gputrain.Compute, error) {
			return gputrain.Open(context.Background(), untouched{}, gputrain.Spec{})
		},
		func() (*gputrain.Compute, error) { return gputrain.Attach(context.Background(), untouched{}, "none") },
	} {
		_, err := open()
		e2etest.Say("refused: invalid=%v noInit=%v %v", errors.Is(err, gputrain.ErrInvalid), errors.Is(err, gputrain.ErrNoInit), err)
	}
	return nil
})

// Mistakes in a program's functions are found before a machine is rented.
func TestOpenRefusesFunctionsThatNoNodeCanServe(t *testing.T) {
	for mistake, says := range map[string]string{
		"no Init":                   "first line of main, or of TestMain",
		"two functions of one name": `two functions are called "examples/double"`,
		"a bad name":                `"no spaces please"`,
		"a type that cannot travel": `"register/channel"`,
	} {
		c := mistaken.Start(t, mistake)
		for _, op := range []string{"open: ", "attach: "} {
			said := c.Await("refused: ")
			if !strings.Contains(said, "invalid=true") || !strings.Contains(said, op) || !strings.Contains(said, says) || strings.Contains(said, "noInit=true") != (mistake == "no Init") {
				t.Errorf("%s: the program printed %q", mistake, said)
			}
		}
	}
}
