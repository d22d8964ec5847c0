package output

// Reword returns an error with another text that wraps err. It returns err itself if that is its text already.
func Reword(err error, text string) error {
	if text == err.Error() {
		return err
	}
	return &rewordedError{text, err}
}

type rewordedError struct {
	text string
	err  error
}

func (e *rewordedError) Error() string { return e.text }
func (e *rewordedError) Unwrap() error { return e.err }
