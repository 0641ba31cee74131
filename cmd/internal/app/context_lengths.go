package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"go.uber.org/zap"

	"hermesd/agent/llm/catalog"
	"hermesd/agent/llm/tokens"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/chat"
)

// windowsKey is where the store keeps what providers have told of their models.
const windowsKey = "windows"

// minWindow is the smallest context with which an agent is of use.
const minWindow = 16_000

// contextLengths knows how many tokens models can take.
type contextLengths struct {
	a       *App
	table   *tokens.Table
	learned *tokens.LearnedLengths
}

// openContextLengths reads the table, the user's own table over it, and what was
// learned before.
func (a *App) openContextLengths(ctx context.Context) error {
	w := &contextLengths{a: a, table: tokens.Builtin()}
	file := a.home.Path("models.json")
	if f, err := os.Open(file); err == nil {
		defer func() { _ = f.Close() }() // it was only read
		if w.table, err = w.table.With(f); err != nil {
			return &config.Error{Problems: []config.Problem{{File: file, Text: err.Error()}}}
		}
	} else if !os.IsNotExist(err) {
		return err
	}
	var before map[string]int
	raw, err := a.store.Value(ctx, windowsKey)
	if err != nil {
		return err
	}
	if len(raw) > 0 && json.Unmarshal(raw, &before) != nil {
		a.opts.Log.Warn("what was learned of models' context lengths is damaged and was set aside")
	}
	w.learned = tokens.NewLearnedLengths(before)
	a.lengths = w
	return w.check()
}

// check refuses a main model that is too small.
func (w *contextLengths) check() error {
	main := w.a.opts.Report.Model
	n, from := w.resolve(main, w.a.opts.Config.Model.ContextLength)
	switch {
	case main.Provider == "demo":
	case n < minWindow:
		return &chat.ConfigError{Platform: "model", Reason: fmt.Sprintf("%s takes %d tokens (%s), fewer than the %d an agent needs: set model.context_length if that is wrong, or choose another model", main.Model, n, from, minWindow)}
	}
	return nil
}

// ask has the services of all models tell how many tokens these take, where the
// operator has not said it. It runs beside the start, and what is told counts
// from the next turn on; a service that does not tell is no fault.
func (w *contextLengths) ask(ctx context.Context) {
	asked := map[string]bool{}
	for _, e := range append(slices.Clone(w.a.models.endpoints), w.a.opts.Report.Summary) {
		name := e.Model + "@" + e.BaseURL
		n, from := w.resolve(e, w.said(e))
		if e.BaseURL == "" || asked[name] || from == tokens.FromConfig || from == tokens.FromCustom {
			continue
		}
		asked[name] = true
		told, err := catalog.ContextLength(ctx, catalog.Query{Provider: e.Provider, Model: e.Model, BaseURL: e.BaseURL, Key: e.APIKey})
		model := zap.String("model", nameOf(e))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			w.told(ctx, e, told)
		case from == tokens.FromFallback:
			w.a.opts.Log.Warn("the context length of the model is not known; 128,000 is assumed: set model.context_length", model, zap.String("err", w.a.opts.Report.Secrets.Mask(err.Error())))
		default:
			w.a.opts.Log.Debug("the context length of the model is not told; what is known holds", model, zap.Int("tokens", n), zap.String("err", w.a.opts.Report.Secrets.Mask(err.Error())))
		}
	}
}

// told keeps what a service has told of a model.
func (w *contextLengths) told(ctx context.Context, e config.Endpoint, n int) {
	model, before := zap.String("model", nameOf(e)), w.of(e)
	if !w.learned.SetReported(e.Model, e.BaseURL, n) {
		return
	}
	w.store(ctx)
	if now := w.of(e); now != before {
		w.a.opts.Log.Info("the provider has told the context length of a model", model, zap.Int("tokens", now), zap.Int("before", before))
	}
	if err := w.check(); err != nil {
		w.a.opts.Log.Error("the next start will be refused", zap.Error(err))
	}
}

// store keeps what was learned for the next start.
func (w *contextLengths) store(ctx context.Context) {
	raw, err := json.Marshal(w.learned.All())
	if err == nil {
		err = w.a.store.SetValue(ctx, windowsKey, raw)
	}
	if err != nil {
		w.a.opts.Log.Error("context length", zap.Error(err))
	}
}

func (w *contextLengths) resolve(e config.Endpoint, said int) (int, tokens.Source) {
	return w.table.Resolve(tokens.Query{Model: e.Model, BaseURL: e.BaseURL, Config: said, Custom: w.a.opts.Config.ContextOf(e)}, w.learned)
}

// said is what the configuration says of the model itself; 0 for nothing.
func (w *contextLengths) said(e config.Endpoint) int {
	main, summary := w.a.opts.Report.Model, w.a.opts.Report.Summary
	switch {
	case e.Model == main.Model && e.Provider == main.Provider && w.a.opts.Config.Model.ContextLength > 0:
		return w.a.opts.Config.Model.ContextLength
	case e == summary:
		return w.a.opts.Config.Auxiliary.Compression.ContextLength
	}
	return 0
}

// of is how many tokens e takes.
func (w *contextLengths) of(e config.Endpoint) int {
	n, _ := w.resolve(e, w.said(e))
	return n
}

// learn keeps a limit that an error named.
func (w *contextLengths) learn(provider, model string, limit int) {
	for _, e := range w.a.models.endpoints {
		if e.Provider != provider {
			continue
		}
		e.Model = model
		if !w.learned.SetFromError(model, e.BaseURL, limit, w.of(e)) {
			return
		}
		w.a.opts.Log.Info("learned the context length of a model", zap.String("model", provider+"/"+model), zap.Int("tokens", limit))
		w.store(context.Background())
		return
	}
}
