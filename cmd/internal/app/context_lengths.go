package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"hermesd/agent/llm/catalog"
	"hermesd/agent/llm/retry"
	"hermesd/agent/llm/tokens"
	"hermesd/cmd/internal/config"
	"hermesd/gateway/store"
)

// contextLengthsKey is the key under which the store keeps the context lengths that
// providers have reported.
const contextLengthsKey = "windows"

// minContextLength is the smallest context length, in tokens, with which an agent has
// room for a conversation.
const minContextLength = 8_000

// contextLengths resolves the context lengths of models. It is safe for concurrent
// use.
type contextLengths struct {
	opts    Options
	store   store.Values
	table   *tokens.Table
	learned *tokens.LearnedLengths
}

// modelsFile is the file in the home directory with context lengths of the user's own.
const modelsFile = "models.json"

// ModelTable returns the built-in table of context lengths with those of the models.json
// in the home on top. If that cannot be read, it returns the built-in table and an error.
func ModelTable(home string) (*tokens.Table, error) {
	table := tokens.Builtin()
	f, err := os.Open(filepath.Join(home, modelsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return table, nil
	}
	if err != nil {
		return table, cause(err)
	}
	defer func() { _ = f.Close() }() // read only
	own, err := table.With(f)
	if err != nil {
		return table, err
	}
	return own, nil
}

// openContextLengths loads the table and the lengths learned earlier.
func (a *App) openContextLengths(ctx context.Context) {
	w := &contextLengths{opts: a.opts, store: a.store}
	w.table, _ = ModelTable(a.opts.Home) // Usable has reported an error
	before, err := store.Load[map[string]int](ctx, a.store, contextLengthsKey)
	if err != nil {
		a.opts.Log.Warn("stored context lengths are ignored", zap.Error(err))
	}
	w.learned = tokens.NewLearnedLengths(before)
	a.lengths = w
	w.warnIfTiny()
}

// warnIfTiny warns if the context length of the main model, as far as it is known, leaves
// hardly any room for a conversation.
func (w *contextLengths) warnIfTiny() {
	main := w.opts.Report.Model
	n, from := w.resolve(main, w.opts.Config.Model.ContextLength)
	if n >= minContextLength || from == tokens.FromService || main.Provider == "demo" {
		return
	}
	w.opts.Log.Warn("context of the model is too short for conversations", zap.String("model", modelName(main)), zap.Int("tokens", n), zap.String("source", string(from)))
	w.opts.Say(fmt.Sprintf("⚠️ %s takes %d tokens (%s); an agent needs %d: give the model more, or choose another one", main.Model, n, from, minContextLength))
}

// fetchReported asks the providers for the context lengths of all models for which
// the operator has not set one. It runs concurrently with the start; reported
// lengths apply from the next turn on. That a provider does not report one is not an
// error. It calls mainChanged when that of the main model has become another.
func (w *contextLengths) fetchReported(ctx context.Context, mainChanged func()) {
	queried := map[string]bool{}
	for _, e := range append(endpoints(w.opts.Report), w.opts.Report.Summary) {
		name := e.Model + "@" + e.BaseURL
		n, from := w.resolve(e, w.configured(e))
		written := from == tokens.FromConfig || from == tokens.FromCustom
		if e.BaseURL == "" || queried[name] || written && e.Service().API != config.Ollama {
			continue
		}
		queried[name] = true
		reported, err := catalog.ContextLength(ctx, catalog.Query{API: string(e.Service().API), Model: e.Model, BaseURL: e.BaseURL, Key: e.APIKey})
		model := zap.String("model", modelName(e))
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && written:
			if reported < n {
				w.opts.Log.Warn("Ollama runs the model with a shorter context than the configuration says, and cuts off what does not fit; set num_ctx in its file or OLLAMA_CONTEXT_LENGTH", model, zap.Int("tokens", reported), zap.Int("configured", n))
			}
		case err == nil:
			w.setReported(ctx, e, reported, mainChanged)
		case from == tokens.FromFallback:
			w.opts.Log.Warn("context length of the model is unknown, assuming 128,000 tokens; set model.context_length", model, zap.String("err", w.opts.Report.Secrets.Mask(err.Error())))
		default:
			w.opts.Log.Debug("provider does not report the context length, keeping the known one", model, zap.Int("tokens", n), zap.String("err", w.opts.Report.Secrets.Mask(err.Error())))
		}
	}
}

// setReported stores the context length that a provider has reported.
func (w *contextLengths) setReported(ctx context.Context, e config.Endpoint, n int, mainChanged func()) {
	model, before := zap.String("model", modelName(e)), w.lengthOf(e)
	if !w.learned.SetReported(e.Model, e.BaseURL, n) {
		return
	}
	w.save(ctx)
	if now := w.lengthOf(e); now != before {
		w.opts.Log.Info("provider reported a context length", model, zap.Int("tokens", now), zap.Int("before", before))
	}
	w.warnIfTiny()
	if e.Model == w.opts.Report.Model.Model && e.Provider == w.opts.Report.Model.Provider {
		mainChanged()
	}
}

// save stores what was learned for the next start.
func (w *contextLengths) save(ctx context.Context) {
	if err := store.Save(ctx, w.store, contextLengthsKey, w.learned.All()); err != nil {
		w.opts.Log.Error("cannot save context lengths", zap.Error(err))
	}
}

func (w *contextLengths) resolve(e config.Endpoint, configured int) (int, tokens.Source) {
	return w.table.Resolve(ContextQuery(w.opts.Config, e, configured), w.learned)
}

// ContextQuery returns the question for the context length of e. configured is the length
// that the configuration sets for the model itself, or 0.
func ContextQuery(c *config.Config, e config.Endpoint, configured int) tokens.Query {
	q := tokens.Query{Model: e.Model, BaseURL: e.BaseURL, Config: configured, Custom: c.ContextOf(e)}
	if e.Service().API == config.Ollama {
		q.Service = catalog.OllamaDefault
	}
	return q
}

// configured returns the context length that the configuration sets for the model
// itself, or 0.
func (w *contextLengths) configured(e config.Endpoint) int {
	main, summary := w.opts.Report.Model, w.opts.Report.Summary
	switch {
	case e.Model == main.Model && e.Provider == main.Provider && w.opts.Config.Model.ContextLength > 0:
		return w.opts.Config.Model.ContextLength
	case e == summary:
		return w.opts.Config.Auxiliary.Compression.ContextLength
	}
	return 0
}

// lengthOf returns the context length of e in tokens.
func (w *contextLengths) lengthOf(e config.Endpoint) int {
	n, _ := w.resolve(e, w.configured(e))
	return n
}

// outputLimits returns what keeps the output limits of the models of e's service.
func (w *contextLengths) outputLimits(e config.Endpoint) retry.OutputLimits {
	return outputLimits{w, e}
}

type outputLimits struct {
	w *contextLengths
	e config.Endpoint
}

// OutputLimit implements retry.OutputLimits.
func (o outputLimits) OutputLimit(model string) int { return o.w.learned.Output(model, o.e.BaseURL) }

// SetOutputLimit implements retry.OutputLimits.
func (o outputLimits) SetOutputLimit(model string, tokens int) {
	if o.w.learned.SetOutput(model, o.e.BaseURL, tokens) {
		o.w.opts.Log.Info("learned an output limit from an error", zap.String("model", o.e.Provider+"/"+model), zap.Int("tokens", tokens))
		o.w.save(context.Background())
	}
}

// setFromError stores a limit that an error of the provider named.
func (w *contextLengths) setFromError(provider, model string, limit int) {
	for _, e := range endpoints(w.opts.Report) {
		if e.Provider != provider {
			continue
		}
		e.Model = model
		if !w.learned.SetFromError(model, e.BaseURL, limit, w.lengthOf(e)) {
			return
		}
		w.opts.Log.Info("learned a context length from an error", zap.String("model", provider+"/"+model), zap.Int("tokens", limit))
		w.save(context.Background())
		return
	}
}
