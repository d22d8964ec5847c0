package console

import "os"

// A helper does nothing: a process cannot write to a console that it is not attached to.
type helper struct{}

func startHelper(*os.File) (*helper, error) { return &helper{}, nil }

func (h *helper) arm()    {}
func (h *helper) disarm() {}
func (h *helper) close()  {}
