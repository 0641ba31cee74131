package turn

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/prompt"
	"hermesd/gateway/chat"
	"hermesd/gateway/delivery"
	"hermesd/gateway/markup"
	"hermesd/gateway/observe"
	"hermesd/gateway/outbox"
	"hermesd/gateway/session"
)

// Media holds the media tasks. Each may be nil: without Transcribe or DescribeImage
// the model gets only the path of a file, without Synthesize there are no recordings.
type Media struct {
	// Transcribe returns the text that is spoken in a recording.
	Transcribe func(context.Context, chat.File) (string, error)
	// DescribeImage returns a description of an image for a model without vision, and
	// the model call that made it.
	DescribeImage func(context.Context, chat.File) (string, agent.Call, error)
	// Synthesize returns a recording of a text.
	Synthesize func(context.Context, string) (chat.File, error)
}

// describeFile returns a text for the model that replaces f: a transcription or an
// image description. ok is false if there is none. problem is a text for the user,
// "" if there is no problem.
func (r *Runner) describeFile(ctx context.Context, id session.ID, f chat.File) (text, problem string, ok bool) {
	start := time.Now()
	switch {
	case f.Path == "" || f.FetchError != "":
		return "", "", false
	case f.Kind == chat.Voice && r.opts.Media.Transcribe != nil:
		text, err := r.opts.Media.Transcribe(ctx, f)
		r.reportMediaTask(observe.Transcription, start, err)
		if err != nil {
			r.opts.Log.Warn("cannot transcribe recording", zap.Error(err))
			return "", r.opts.Printer.T("I could not understand the voice message: %v.", err), false
		}
		if strings.TrimSpace(text) == "" {
			return "[a voice message in which nothing is said]", "", true
		}
		return "[voice message]\n" + prompt.EscapeTags(text) + "\n[end of voice message]", "", true
	case isImage(f) && r.opts.Media.DescribeImage != nil:
		description, call, err := r.opts.Media.DescribeImage(ctx, f)
		r.reportMediaTask(observe.ImageDescription, start, err)
		r.opts.Usage.Charge(id, call)
		if err != nil {
			r.opts.Log.Warn("cannot describe image", zap.Error(err))
			return "", r.opts.Printer.T("The picture could not be described: %v.", err), false
		}
		return fmt.Sprintf("[picture %s, as another model describes it]\n%s\n[end of description]", prompt.Quote(f.Name), prompt.EscapeTags(description)), "", true
	}
	return "", "", false
}

// speak also sends an answer as a recording, if the settings of the session say so.
// The recording is made in the background and is not repeated after a restart.
func (t *turn) speak(answer string) {
	if t.runner.opts.Media.Synthesize == nil || !t.session.Record.Settings.Voice {
		return
	}
	text := markup.PlainText(markup.Parse(answer))
	if strings.TrimSpace(text) == "" {
		return
	}
	f := delivery.Draft{To: t.last().Inbound.Address, Turn: t.claim.Turn}
	t.runner.goBackground(func(ctx context.Context) {
		start := time.Now()
		file, err := t.runner.opts.Media.Synthesize(ctx, text)
		t.runner.reportMediaTask(observe.SpeechSynthesis, start, err)
		if err != nil {
			t.log.Warn("cannot synthesize speech", zap.Error(err))
			t.notify(t.T("I could not speak this answer: %v.", err))
			return
		}
		row := outbox.Row{Role: outbox.Notice, Turn: f.Turn, Msg: chat.Outbound{To: f.To, File: &file}}
		if _, err := t.runner.opts.Delivery.Enqueue(ctx, row); err != nil {
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
