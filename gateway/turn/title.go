package turn

import (
	"context"
	"errors"
	"strings"

	"go.uber.org/zap"

	"hermesd/gateway/inbox"
)

// generateTitle starts, in the background, the generation of a title for a
// conversation after its first answer. It never replaces a title that a user has
// set, and is not repeated after a restart.
func (t *turn) generateTitle(isFirst bool, answer string) {
	generate, rec := t.runner.parts.Settings.Title, t.session.Record
	if generate == nil || rec.Title != "" || !isFirst {
		return
	}
	question := inboundText(t.claim.Entries)
	t.runner.goBackground(func(ctx context.Context) {
		title, call, err := generate(ctx, question, answer)
		t.runner.parts.Agent.Usage.Charge(rec.ID, call)
		if err == nil {
			_, err = t.runner.parts.Store.SuggestTitle(ctx, rec.ID, title)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.log.Warn("cannot generate title", zap.Error(err))
		}
	})
}

// inboundText returns the texts of entries, one per line.
func inboundText(entries []inbox.Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.Inbound.Text + "\n")
	}
	return strings.TrimSpace(b.String())
}

// speak also sends an answer as a recording, if the settings of the session say so. The
// recording is made in the background and is not repeated after a restart.
func (t *turn) speak(answer string) {
	if t.reply.Files.Synthesize != nil && t.session.Record.Settings.Voice {
		t.runner.goBackground(func(ctx context.Context) { t.reply.Speak(ctx, answer) })
	}
}

// goBackground runs f on a new goroutine. Its context is canceled by Close, and Wait
// waits for it.
func (r *Runner) goBackground(f func(ctx context.Context)) {
	r.background.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		stop := make(chan struct{})
		defer close(stop)
		go func() { // ends at the latest when stop is closed
			select {
			case <-r.closing:
				cancel()
			case <-stop:
			}
		}()
		f(ctx)
	})
}
