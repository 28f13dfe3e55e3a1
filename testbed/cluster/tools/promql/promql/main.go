// What Prometheus answers to queries about scrapes that it is given: its own parsers of metrics and of PromQL, and its engine.
//
// Standard input is a document {"scrapes": [{"at_ms", "text", "labels"}], "at_ms", "queries"}; standard output has of each
// query {"error"} or {"samples": [{"labels", "value"}]}, in the same order. Scrapes are in the order of time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

type scrape struct {
	At     int64             `json:"at_ms"`
	Text   string            `json:"text"`
	Labels map[string]string `json:"labels"`
}

type asked struct {
	Scrapes []scrape `json:"scrapes"`
	At      int64    `json:"at_ms"`
	Queries []string `json:"queries"`
}

type sample struct {
	Labels map[string]string `json:"labels"`
	Value  string            `json:"value"`
}

type answer struct {
	Error   string   `json:"error,omitempty"`
	Samples []sample `json:"samples"`
}

func main() {
	var told asked
	fail(json.NewDecoder(os.Stdin).Decode(&told))
	series := map[string]*promql.Series{}
	for _, each := range told.Scrapes {
		fail(read(each, series))
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		Parser: parser.NewParser(parser.Options{}),
	})
	answers := []answer{}
	for _, query := range told.Queries {
		answers = append(answers, answerOf(engine, series, query, time.UnixMilli(told.At)))
	}
	fail(json.NewEncoder(os.Stdout).Encode(answers))
}

// read adds the samples of one scrape, which have the labels of their target too.
func read(from scrape, series map[string]*promql.Series) error {
	parsed := textparse.NewPromParser([]byte(from.Text), labels.NewSymbolTable(), false)
	for {
		entry, err := parsed.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var own labels.Labels
		parsed.Labels(&own)
		builder := labels.NewBuilder(own)
		for name, value := range from.Labels {
			builder.Set(name, value)
		}
		all := builder.Labels()
		if series[all.String()] == nil {
			series[all.String()] = &promql.Series{Metric: all}
		}
		_, _, value := parsed.Series()
		known := series[all.String()]
		known.Floats = append(known.Floats, promql.FPoint{T: from.At, F: value})
	}
}

func answerOf(engine *promql.Engine, series map[string]*promql.Series, query string, at time.Time) answer {
	kept := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return matching(series, matchers)
		},
	}}
	found, err := engine.NewInstantQuery(context.Background(), kept, nil, query, at)
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer found.Close()
	vector, err := found.Exec(context.Background()).Vector()
	if err != nil {
		return answer{Error: err.Error()}
	}
	samples := []sample{}
	for _, each := range vector {
		samples = append(samples, sample{each.Metric.Map(), strconv.FormatFloat(each.F, 'g', -1, 64)})
	}
	return answer{Samples: samples}
}

// set is the series that a query selects, one after the other.
type set struct {
	series []storage.Series
	at     int
}

func (found *set) Next() bool                        { found.at++; return found.at < len(found.series) }
func (found *set) At() storage.Series                { return found.series[found.at] }
func (found *set) Err() error                        { return nil }
func (found *set) Warnings() annotations.Annotations { return nil }

func matching(series map[string]*promql.Series, matchers []*labels.Matcher) storage.SeriesSet {
	found := &set{at: -1}
	for _, each := range series {
		if matches(each.Metric, matchers) {
			found.series = append(found.series, promql.NewStorageSeries(*each))
		}
	}
	return found
}

func matches(metric labels.Labels, matchers []*labels.Matcher) bool {
	for _, each := range matchers {
		if !each.Matches(metric.Get(each.Name)) {
			return false
		}
	}
	return true
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
