package worker

import (
	"context"

	"github.com/gputrain/gputrain/internal/codec"
)

// StackOf calls a function of another package as a call does, and returns the stack of its panic.
func StackOf(f func()) string {
	stack := make(chan string, 1)
	go invoke(context.Background(), func(context.Context, codec.Body, *Stream) (codec.Body, error) {
		f()
		return codec.Body{}, nil
	}, codec.Body{}, nil, func(_ codec.Body, failure *wireError) {
		if failure == nil {
			failure = &wireError{}
		}
		stack <- failure.Stack
	})
	return <-stack
}

// UserStack is userStack.
func UserStack(stack string) string { return userStack(stack) }
