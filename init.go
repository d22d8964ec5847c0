package gputrain

import (
	"os"
	"sync/atomic"

	"github.com/gputrain/gputrain/internal/worker"
)

// workerVariable tells the program that it runs on a node, and how.
const workerVariable = "GPUTRAIN_WORKER"

var initCalled atomic.Bool

// Init makes the program's functions callable on nodes. Call it first in main,
// or first in TestMain: on a node, where the same program is started to serve
// its functions, it does so and does not return. Anywhere else it returns at
// once. A program that registers functions and does not call Init is refused by
// [Open] and [Attach], with [ErrNoInit]; one without functions needs no Init.
func Init() {
	initCalled.Store(true)
	if mode := os.Getenv(workerVariable); mode != "" {
		worker.Main(mode)
	}
}

// The package's own kinds of failure cross from a node too.
func init() {
	for name, err := range map[string]error{
		"ErrInvalid": ErrInvalid, "ErrNoOffers": ErrNoOffers, "ErrNoCapacity": ErrNoCapacity, "ErrQuota": ErrQuota, "ErrAuth": ErrAuth,
		"ErrRateLimited": ErrRateLimited, "ErrNotFound": ErrNotFound, "ErrUnsupported": ErrUnsupported, "ErrUnavailable": ErrUnavailable,
		"ErrPreempted": ErrPreempted, "ErrNodeLost": ErrNodeLost, "ErrHostKey": ErrHostKey, "ErrBootstrap": ErrBootstrap, "ErrClosed": ErrClosed,
		"ErrExpired": ErrExpired, "ErrNoInit": ErrNoInit, "ErrUnknownFunction": ErrUnknownFunction, "ErrTimeout": ErrTimeout,
		"ErrOutOfMemory": ErrOutOfMemory,
	} {
		worker.RegisterError("gputrain."+name, err)
	}
}

// RegisterError makes errors.Is(err, target) hold for errors that a function
// returned on a node, as it would had the function been called here. Call it at
// package level, next to the error it names. The name is used once in a program.
//
//	var errDiverged = gputrain.RegisterError("diverged", errors.New("loss is NaN"))
func RegisterError(name string, target error) error {
	worker.RegisterError(name, target)
	return target
}
