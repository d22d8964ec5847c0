package cloud

import (
	"testing"
	"time"
)

func TestLimiterIsOnePerKey(t *testing.T) {
	one := Limiter(1, time.Second, "https://a", "key", "launch")
	if Limiter(1, time.Second, "https://a", "key", "launch") != one {
		t.Error("two drivers of one key have limiters of their own")
	}
	if Limiter(1, time.Second, "https://a", "other", "launch") == one || Limiter(1, time.Second, "https://a", "key", "all") == one {
		t.Error("what is counted apart shares a limiter")
	}
}
