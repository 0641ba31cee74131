package config

import (
	"fmt"
	"strings"
	"time"

	"hermesd/agent/llm/pricing"
	"hermesd/cmd/internal/config/yamlconf"
)

// prices is the content of a price file in YAML or JSON.
type prices struct {
	Date   string  `yaml:"date"`
	Source string  `yaml:"source"`
	Models []price `yaml:"models"`
}

type price struct {
	Match   string  `yaml:"match"`
	Input   float64 `yaml:"input" range:"0..100000"`
	Output  float64 `yaml:"output" range:"0..100000"`
	Read    float64 `yaml:"cache_read" range:"0..100000"`
	Write5m float64 `yaml:"cache_write_5m" range:"0..100000"`
	Write1h float64 `yaml:"cache_write_1h" range:"0..100000"`
}

// prices returns the built-in price table with the entries of prices_file on top.
// Errors in that file are problems with their line.
func (l *loader) prices(c *Config) *pricing.Table {
	if c.PricesFile == "" {
		return pricing.Builtin()
	}
	path := InHome(l.home, c.PricesFile)
	data, err := yamlconf.ReadFile(path, maxFile)
	if err != nil {
		l.ProblemAt("prices_file", "%s cannot be read: %v", path, err)
		return nil
	}
	var p prices
	f := yamlconf.New(&p, yamlconf.Options{File: path, LookupEnv: l.look, Foreign: func(string) (string, bool) { return "", false }})
	f.Decode(data)
	if _, err := time.Parse(time.DateOnly, p.Date); err != nil && len(f.Problems) == 0 {
		f.Problems = append(f.Problems, Problem{File: path, Line: max(f.Origins["date"].Line, 1), Column: max(f.Origins["date"].Column, 1), Key: "date", Text: "say from which day the prices are, such as 2026-01-31"})
	}
	models := make([]pricing.Override, len(p.Models))
	for i, m := range p.Models {
		at := fmt.Sprintf("models[%d]", i)
		said := func(key string, v *float64) *float64 {
			if _, ok := f.Origins[at+"."+key]; !ok {
				return nil
			}
			return v
		}
		models[i] = pricing.Override{
			Match: m.Match, Input: said("input", &m.Input), Output: said("output", &m.Output), Read: said("cache_read", &m.Read),
			Write5m: said("cache_write_5m", &m.Write5m), Write1h: said("cache_write_1h", &m.Write1h),
		}
		switch {
		case strings.Trim(m.Match, "* \t") == "":
			f.ProblemAt(at, "match names no model")
		case models[i].Input == nil || models[i].Output == nil:
			f.ProblemAt(at, "input and output are needed, in dollars for a million tokens")
		}
	}
	l.Warnings = append(l.Warnings, f.Warnings...)
	l.Problems = append(l.Problems, f.Problems...)
	if len(f.Problems) > 0 {
		return nil
	}
	if p.Source == "" {
		p.Source = path
	}
	table, err := pricing.Builtin().WithModels(p.Date, p.Source, models)
	if err != nil {
		l.ProblemAt("prices_file", "%s: %v", path, err)
	}
	return table
}
