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
	"hermesd/gateway/chat"
	"hermesd/gateway/title"
	"hermesd/gateway/turn"
	"hermesd/internal/safehttp"
)

// mediaServices are the services that the configuration names for voices and pictures.
func (a *App) mediaServices() (turn.Media, error) {
	c := a.opts.Config
	var s turn.Media
	if at := c.STT.Address(); at != "" {
		t, err := speech.NewTranscriber(speech.TranscriberOptions{
			Service: speech.Service{BaseURL: at, Key: c.STT.APIKey, HTTP: reaching(at)}, Model: c.STT.Model, Language: c.STT.Language,
		})
		if err != nil {
			return s, wrongKey("stt", err)
		}
		s.Transcribe = func(ctx context.Context, f chat.File) (string, error) { return t.Transcribe(ctx, f.Path) }
	}
	if at := c.TTS.Address(); at != "" {
		sp, err := speech.NewSpeaker(speech.SpeakerOptions{
			Service: speech.Service{BaseURL: at, Key: c.TTS.APIKey, HTTP: reaching(at)}, Model: c.TTS.Model, Voice: c.TTS.Voice, Format: c.TTS.Format,
		})
		if err != nil {
			return s, wrongKey("tts", err)
		}
		s.Synthesize = func(ctx context.Context, text string) (chat.File, error) { return a.speak(ctx, sp, text) }
	}
	if e := a.opts.Report.Vision; e.Provider != "" {
		d := vision.New(a.endpoint(e), vision.Options{Model: e.Model, Timeout: c.Auxiliary.Vision.Timeout})
		s.DescribeImage = func(ctx context.Context, f chat.File) (string, agent.Call, error) {
			text, usage, err := d.Describe(ctx, llm.Block{Type: llm.Image, MIME: f.MIME, Path: f.Path})
			return text, agent.Call{Provider: e.Provider, Model: e.Model, Usage: usage}, err
		}
	}
	return s, nil
}

// reaching is a client for the service at an address that the operator has
// chosen, which may be at home.
func reaching(at string) *http.Client {
	o := safehttp.Options{Environment: true}
	if u, err := url.Parse(at); err == nil {
		o.Allow = []string{withPort(u)}
	}
	return safehttp.New(o)
}

// speak has a text spoken, and keeps the recording like any file that is sent.
func (a *App) speak(ctx context.Context, s *speech.Speaker, text string) (chat.File, error) {
	r, err := s.Speak(ctx, text, a.cache.Dir())
	if err != nil {
		return chat.File{}, err
	}
	defer func() {
		if err := os.Remove(r.Path); err != nil {
			a.opts.Log.Warn("recording", zap.Error(err))
		}
	}()
	return a.attach(r.Path)
}

// titles names conversations, if the configuration names a model for that.
func (a *App) titles() func(context.Context, string, string) (string, agent.Call, error) {
	e := a.opts.Report.Titles
	if e.Provider == "" {
		return nil
	}
	m := title.Generator{Provider: a.endpoint(e), Model: e.Model, Mask: a.opts.Report.Secrets.Mask}
	timeout := a.opts.Config.Auxiliary.TitleGeneration.Timeout
	return func(ctx context.Context, asked, answer string) (string, agent.Call, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		name, usage, err := m.Generate(ctx, asked, answer)
		return name, agent.Call{Provider: e.Provider, Model: e.Model, Usage: usage}, err
	}
}
