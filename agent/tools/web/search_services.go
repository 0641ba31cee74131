package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// services returns the protocol of each search service.
func services() map[string]searchService {
	return map[string]searchService{
		SearXNG: {name: "SearXNG", request: askSearXNG, parse: parseSearXNG, statusText: func(status int) string {
			if status == http.StatusForbidden {
				return "the instance does not give results as JSON; the operator must add json to search.formats in its settings.yml, or let this host past its limiter"
			}
			return ""
		}},
		Brave: {name: "Brave Search", base: "https://api.search.brave.com/res/v1", needsKey: true, request: askBrave, parse: parseBrave, statusText: func(status int) string {
			if status == http.StatusUnprocessableEntity {
				return "the key or the query is not valid; the operator can check the key"
			}
			return ""
		}},
		Tavily: {name: "Tavily", base: "https://api.tavily.com", needsKey: true, request: askTavily, parse: parseTavily, statusText: func(status int) string {
			if status == 432 || status == 433 {
				return "the searches that are paid for are used up; the operator must raise the limit of the plan"
			}
			return ""
		}},
	}
}

func askSearXNG(ctx context.Context, e *searchClient, query string, _ int) (*http.Request, error) {
	v := url.Values{"q": {query}, "format": {"json"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+"/search?"+v.Encode(), nil)
	if err == nil && e.key != "" {
		req.Header.Set("Authorization", "Bearer "+e.key.Reveal())
	}
	return req, err
}

func parseSearXNG(body []byte) ([]result, string, error) {
	var a struct {
		Results *[]struct {
			URL, Title, Content string
			Date                *string `json:"publishedDate"`
		}
		Silent [][]any `json:"unresponsive_engines"`
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, "", err
	}
	if a.Results == nil {
		return nil, "", errors.New("there are no results in it")
	}
	var out []result
	for _, r := range *a.Results {
		f := result{title: r.Title, url: r.URL, text: r.Content}
		if r.Date != nil {
			f.date = *r.Date
		}
		out = append(out, f)
	}
	var silent []string
	for _, s := range a.Silent {
		silent = append(silent, strings.Trim(fmt.Sprint(s), "[]"))
	}
	if len(silent) == 0 {
		return out, "", nil
	}
	return out, oneLine("engines that did not answer: "+strings.Join(silent, ", "), maxTitle), nil
}

func askBrave(ctx context.Context, e *searchClient, query string, limit int) (*http.Request, error) {
	v := url.Values{"q": {query}, "count": {strconv.Itoa(limit)}, "text_decorations": {"false"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+"/web/search?"+v.Encode(), nil)
	if err == nil {
		req.Header.Set("X-Subscription-Token", e.key.Reveal())
	}
	return req, err
}

func parseBrave(body []byte) ([]result, string, error) {
	var a struct {
		Type string
		Web  struct {
			Results []struct {
				Title, URL, Description, Age string
			}
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, "", err
	}
	if a.Type != "search" {
		return nil, "", errors.New("it is not a search")
	}
	var out []result
	for _, r := range a.Web.Results {
		out = append(out, result{title: html.UnescapeString(r.Title), url: r.URL, text: html.UnescapeString(r.Description), date: r.Age})
	}
	return out, "", nil
}

func askTavily(ctx context.Context, e *searchClient, query string, limit int) (*http.Request, error) {
	body, err := json.Marshal(map[string]any{"query": query, "max_results": limit})
	if err != nil {
		return nil, fmt.Errorf("write the query: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.base+"/search", bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+e.key.Reveal())
	}
	return req, err
}

func parseTavily(body []byte) ([]result, string, error) {
	var a struct {
		Results *[]struct {
			Title, URL, Content string
			Date                string `json:"published_date"`
		}
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, "", err
	}
	if a.Results == nil {
		return nil, "", errors.New("there are no results in it")
	}
	var out []result
	for _, r := range *a.Results {
		out = append(out, result{title: r.Title, url: r.URL, text: r.Content, date: r.Date})
	}
	return out, "", nil
}
