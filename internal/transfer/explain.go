package transfer

import (
	"errors"
	"fmt"

	"github.com/gputrain/gputrain/providers/driver"
)

// Explain adds to an error of a Remote what the user can do about it. options names the options for links that lead out
// of the folder.
func Explain(err error, options string) error {
	var limit *LimitError
	switch {
	case errors.As(err, &limit) && limit.Files:
		return fmt.Errorf("%w: %w; for more set Limits.DownloadFiles, by WithLimits", driver.ErrLimit, err)
	case errors.As(err, &limit):
		return fmt.Errorf("%w: %w; for more set Limits.DownloadBytes, by WithLimits", driver.ErrLimit, err)
	case errors.Is(err, ErrOutsideLink):
		return fmt.Errorf("%w; see the options %s", err, options)
	}
	return err
}
