package joined

import (
	"errors"
	"testing"
)

func TestOnce(t *testing.T) {
	if err := Once(nil); err != nil {
		t.Errorf("no error is %v", err)
	}
	disk, key := errors.New("the disk is full"), errors.New("the key is refused")
	err := Once([]error{disk, key, errors.New("the disk is full")})
	if err.Error() != "the disk is full\nthe key is refused" || !errors.Is(err, disk) || !errors.Is(err, key) {
		t.Errorf("%v", err)
	}
}
