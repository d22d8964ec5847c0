package training

import (
	"context"
	_ "embed"
	"time"
)

//go:embed hasten.sh
var killLauncher string

// Torchrun has hastenPause to end by itself.
const hastenPause = 3 * time.Second

// hasten ends torchrun on a node early, once the context of its share has ended, until ctx ends. When its processes have
// failed torchrun waits for those of the other nodes, for five minutes if one is lost, and meanwhile TERM does not end it.
func (t *Config) hasten(ctx context.Context, n Node, share context.Context) {
	select {
	case <-share.Done():
	case <-ctx.Done():
		return
	}
	look := time.NewTicker(hastenPause)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		_, _ = shell(ctx, n, "mark="+word(markName+"="+t.mark())+"\n"+killLauncher) // its grace ends all the same
	}
}
