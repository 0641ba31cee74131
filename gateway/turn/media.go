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

// Media are services that turn pictures and voices into words, and words into a
// voice. Each may be nil: then the model is told of the file by its path only.
type Media struct {
	// Transcribe returns what is said in a recording.
	Transcribe func(context.Context, chat.File) (string, error)
	// DescribeImage describes a picture, for a model that sees none, and returns the call that
	// it took.
	DescribeImage func(context.Context, chat.File) (string, agent.Call, error)
	// Synthesize makes a recording of a text.
	Synthesize func(context.Context, string) (chat.File, error)
}

// describeFile tells the model of a file in words, if that is possible. problem is
// what the person should know.
func (r *Runner) describeFile(ctx context.Context, id session.ID, f chat.File) (text, problem string, ok bool) {
	began := time.Now()
	switch {
	case f.Path == "" || f.FetchError != "":
		return "", "", false
	case f.Kind == chat.Voice && r.opts.Media.Transcribe != nil:
		said, err := r.opts.Media.Transcribe(ctx, f)
		r.reportMediaTask(observe.Transcription, began, err)
		if err != nil {
			r.opts.Log.Warn("transcribe", zap.Error(err))
			return "", r.opts.Printer.T("I could not understand the voice message: %v.", err), false
		}
		if strings.TrimSpace(said) == "" {
			return "[a voice message in which nothing is said]", "", true
		}
		return "[voice message]\n" + prompt.EscapeTags(said) + "\n[end of voice message]", "", true
	case isImage(f) && r.opts.Media.DescribeImage != nil:
		seen, call, err := r.opts.Media.DescribeImage(ctx, f)
		r.reportMediaTask(observe.ImageDescription, began, err)
		r.AddUsage(id, call)
		if err != nil {
			r.opts.Log.Warn("describe a picture", zap.Error(err))
			return "", r.opts.Printer.T("The picture could not be described: %v.", err), false
		}
		return fmt.Sprintf("[picture %s, as another model describes it]\n%s\n[end of description]", prompt.Quote(f.Name), prompt.EscapeTags(seen)), "", true
	}
	return "", "", false
}

// speak sends an answer as a recording too, if the conversation wants that. The
// written answer does not wait for it, and it is not made up for after a restart.
func (t *turn) speak(answer string) {
	said := markup.PlainText(markup.Parse(answer))
	if t.runner.opts.Media.Synthesize == nil || !t.session.record.Settings.Voice || strings.TrimSpace(said) == "" {
		return
	}
	f := delivery.Draft{To: t.last().Inbound.Address, Turn: t.claim.Turn}
	t.runner.goBackground(func(ctx context.Context) {
		began := time.Now()
		file, err := t.runner.opts.Media.Synthesize(ctx, said)
		t.runner.reportMediaTask(observe.SpeechSynthesis, began, err)
		if err != nil {
			t.log.Warn("speak", zap.Error(err))
			t.notify(t.T("I could not speak this answer: %v.", err))
			return
		}
		row := outbox.Row{Role: outbox.Notice, Turn: f.Turn, Msg: chat.Outbound{To: f.To, File: &file}}
		if _, err := t.runner.opts.Delivery.Enqueue(ctx, row); err != nil {
			t.log.Error("send the recording", zap.Error(err))
		}
	})
}

// goBackground runs f beside the turns; its context ends when the runner is closed, and
// Wait waits for it.
func (r *Runner) goBackground(f func(ctx context.Context)) {
	r.beside.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		stop := make(chan struct{})
		defer close(stop)
		go func() { // ends with stop at the latest
			select {
			case <-r.closing:
				cancel()
			case <-stop:
			}
		}()
		f(ctx)
	})
}
