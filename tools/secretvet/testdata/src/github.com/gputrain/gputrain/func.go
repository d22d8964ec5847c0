package gputrain

import "context"

type Function[In, Out any] struct{}

func Init() {}

func Func[In, Out any](name string, f func(ctx context.Context, in In) (Out, error)) *Function[In, Out] {
	return nil
}

func GeneratorFunc[In, Out any](name string, f func(ctx context.Context, in In, yield func(Out) bool) error) *Function[In, Out] {
	return nil
}
