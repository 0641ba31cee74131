package turn

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/markup"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
)

// speak also sends an answer as a recording, if the settings of the session say so.
// The recording is made in the background and is not repeated after a restart.
func (t *turn) speak(answer string) {
	if t.runner.parts.Chat.Synthesize == nil || !t.session.Record.Settings.Voice {
		return
	}
	text := markup.PlainText(markup.Parse(answer))
	if strings.TrimSpace(text) == "" {
		return
	}
	f := delivery.Draft{To: t.last().Inbound.Address, Turn: t.claim.Turn}
	t.runner.goBackground(func(ctx context.Context) {
		start := time.Now()
		file, err := t.runner.parts.Chat.Synthesize(ctx, text)
		t.runner.parts.Settings.Observe.Emit(observe.MediaProcessed{Task: observe.SpeechSynthesis, Failed: err != nil, Took: time.Since(start)})
		if err != nil {
			t.log.Warn("cannot synthesize speech", zap.Error(err))
			t.notify(t.T("I could not speak this answer: %v.", err))
			return
		}
		row := outbox.Row{Role: outbox.Notice, Turn: f.Turn, Msg: chat.Outbound{To: f.To, File: &file}}
		if _, err := t.runner.parts.Chat.Delivery.Enqueue(ctx, row); err != nil {
			t.log.Error("cannot send recording", zap.Error(err))
		}
	})
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
