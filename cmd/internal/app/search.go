package app

import (
	"context"

	"go.uber.org/zap"

	"hermesd/agent"
	"hermesd/agent/engine/summary"
	"hermesd/agent/tool"
	"hermesd/agent/tools/sessionsearch"
	"hermesd/cmd/internal/admin"
	"hermesd/storage/index"
	"hermesd/storage/index/sessionlibrary"
)

// openIndex opens the full-text index beside the store. It is made anew from the
// store whenever it is missing or damaged.
func (a *App) openIndex() (tool.Tool, error) {
	x, err := index.Open(a.home.Path("search.db"))
	if err != nil {
		return nil, err
	}
	a.undo = append(a.undo, x.Close)
	a.found = x
	a.index = index.NewFollower(x, a.store, sessionsearch.Name, a.opts.Log)
	return sessionsearch.New(sessionlibrary.New(x, a.store, a.index.Wake), sessionsearch.Options{Summarize: a.summarizer()}), nil
}

// maxSummary is how many tokens a summary of one conversation that was found may
// have.
const maxSummary = 800

// summarizer has the model that writes summaries, or else the one that answers,
// say what conversations that were found tell; nil if that is not wanted.
func (a *App) summarizer() func(context.Context, string, string) (string, error) {
	if !a.opts.Config.SessionSearch.Summarize {
		return nil
	}
	e, mask := a.opts.Report.Summary, a.opts.Report.Secrets.Mask
	if e.Provider == "" {
		e = a.opts.Report.Model
	}
	m := summary.NewCompleter(a.endpoint(e), e.Model, 0, a.opts.Config.Auxiliary.Compression.Timeout)
	return func(ctx context.Context, session, prompt string) (string, error) {
		out, err := m.Complete(ctx, summary.Request{Prompt: mask(prompt), MaxTokens: maxSummary})
		a.addUsage(session, agent.Call{Provider: e.Provider, Model: e.Model, Usage: out.Usage})
		if err != nil {
			a.opts.Log.Warn("a conversation that was found is shown as it is, not summarised", zap.Error(err))
		}
		return mask(out.Text), err
	}
}

// committed has the index follow a commit.
func (a *App) committed() {
	if a.index != nil {
		a.index.Wake()
	}
}

// search is what the control socket searches with.
func (a *App) search() func(context.Context, string, int) ([]admin.Found, error) {
	if a.found == nil {
		return nil
	}
	return Search(a.found)
}

// Search returns what finds messages of all conversations in x: for the operator
// at the machine itself.
func Search(x *index.Index) func(context.Context, string, int) ([]admin.Found, error) {
	return func(ctx context.Context, text string, most int) ([]admin.Found, error) {
		hits, err := x.Search(ctx, index.Query{Text: text, Limit: most, Scope: index.OperatorScope()})
		var found []admin.Found
		for _, h := range hits[:min(len(hits), most)] {
			found = append(found, admin.Found{Session: h.Session, Row: h.Row, Role: string(h.Role), Time: h.Time, Text: h.Snippet})
		}
		return found, err
	}
}
