package app

import (
	"context"
	"net/http"
	"net/url"
	"os"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/llm"
	"hermesd/agent/speech"
	"hermesd/agent/vision"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
	"hermesd/gateway/input"
	"hermesd/gateway/session"
	"hermesd/gateway/title"
	"hermesd/gateway/turn"
	"hermesd/internal/safehttp"
)

// mediaServices returns the configured services for speech and images.
func (a *App) mediaServices() input.Media {
	c, sent, log := a.opts.Config, a.attachments, a.opts.Log
	s := input.NoMedia()
	if t, err := newTranscriber(c.STT); err == nil && t != nil { // Usable has reported an error
		s.Transcribe = func(ctx context.Context, f chat.File) (string, error) { return t.Transcribe(ctx, f.Path) }
	}
	if sp, err := newSpeaker(c.TTS); err == nil && sp != nil {
		s.Synthesize = func(ctx context.Context, text string) (chat.File, error) { return synthesize(ctx, sp, text, sent, log) }
	}
	if e := a.opts.Report.Vision; e.Provider != "" {
		d := vision.New(a.models.newProvider(e), vision.Options{Model: e.Model, Timeout: c.Auxiliary.Vision.Timeout})
		s.DescribeImage = func(ctx context.Context, f chat.File) (string, agent.Call, error) {
			text, usage, err := d.Describe(ctx, llm.Block{Type: llm.Image, MIME: f.MIME, Path: f.Path})
			return text, agent.Call{Provider: e.Provider, Model: e.Model, Usage: usage}, err
		}
	}
	return s
}

// newTranscriber returns the configured transcription service; nil if there is none.
func newTranscriber(c config.STT) (*speech.Transcriber, error) {
	at := c.Address()
	if at == "" {
		return nil, nil
	}
	return speech.NewTranscriber(speech.TranscriberOptions{
		Service: speech.Service{BaseURL: at, Key: c.APIKey, HTTP: serviceClient(at)}, Model: c.Model, Language: c.Language,
	})
}

// newSpeaker returns the configured speech synthesis; nil if there is none.
func newSpeaker(c config.TTS) (*speech.Speaker, error) {
	at := c.Address()
	if at == "" {
		return nil, nil
	}
	return speech.NewSpeaker(speech.SpeakerOptions{
		Service: speech.Service{BaseURL: at, Key: c.APIKey, HTTP: serviceClient(at)}, Model: c.Model, Voice: c.Voice, Format: c.Format,
	})
}

// serviceClient returns an HTTP client for a service at an address that the operator
// has configured. That address may be private.
func serviceClient(at string) *http.Client {
	o := safehttp.Options{Environment: true}
	if u, err := url.Parse(at); err == nil {
		o.Allow = []string{withPort(u)}
	}
	return safehttp.New(o)
}

// synthesize converts text to speech and stores the recording as an attachment.
func synthesize(ctx context.Context, s *speech.Speaker, text string, a attachments, log *zap.Logger) (chat.File, error) {
	r, err := s.Speak(ctx, text, a.cache.Dir())
	if err != nil {
		return chat.File{}, err
	}
	defer func() {
		if err := os.Remove(r.Path); err != nil {
			log.Warn("cannot delete recording", zap.Error(err))
		}
	}()
	return a.attachFrom(a.cache.Dir(), r.Path)
}

// titleGenerator returns the function that generates titles of conversations with the
// model that is configured for it.
func (a *App) titleGenerator() func(ctx context.Context, id session.ID, question, answer string) (string, error) {
	e, meter := a.opts.Report.Titles, a.usage
	if e.Provider == "" {
		return turn.NoTitles
	}
	m := title.Generator{Provider: a.models.newProvider(e), Model: e.Model, Mask: a.opts.Report.Secrets.Mask}
	timeout := a.opts.Config.Auxiliary.TitleGeneration.Timeout
	return func(ctx context.Context, id session.ID, question, answer string) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		name, usage, err := m.Generate(ctx, question, answer)
		meter.Charge(id, agent.Call{Provider: e.Provider, Model: e.Model, Usage: usage})
		return name, err
	}
}
