// franz-go, a Kafka client written in Go, as a client under test. It is the example of docs/write-a-client.md, which is
// the protocol. One goroutine sends, one takes orders, one says outcomes now and then; the library's own call back.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"github.com/twmb/franz-go/pkg/kgo"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var version, tick = "v1.22.3", time.Millisecond // the first as in go.mod; the build of another version sets it

type asked struct {
	Check             bool              `json:"check"`
	Bootstrap         string            `json:"bootstrap"`
	Topic             string            `json:"topic"`
	Streams           int64             `json:"streams"`
	InFlight          int64             `json:"in_flight"`
	Deduplication     bool              `json:"deduplication"`
	ClientName        string            `json:"client_name"`
	DeliveryTimeoutMs int64             `json:"delivery_timeout_ms"`
	Properties        map[string]string `json:"properties"`
}

var writing, taking sync.Mutex // of standard output, and of the rows
var rows []byte
var sent, ended atomic.Int64
var stopped atomic.Bool

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	in.Scan()
	a := asked{Bootstrap: "127.0.0.1:1", DeliveryTimeoutMs: 300_000}
	must(json.Unmarshal(in.Bytes(), &a), 1)
	opts, err := options(a)
	must(err, 2) // the library does not take its settings
	if !a.Check {
		targets := make(chan int64, 1)
		go obey(in, targets)
		run(a, opts, targets)
	}
}

func options(a asked) ([]kgo.Opt, error) { // settings have the names of kgo's own
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(a.Bootstrap, ",")...), kgo.ClientID(a.ClientName), kgo.WithHooks(witness{}),
		kgo.RecordDeliveryTimeout(time.Duration(a.DeliveryTimeoutMs) * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(int(a.InFlight) + 1),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	}
	if !a.Deduplication { // an idempotent producer has five requests in flight: the variants are to differ in one thing
		opts = append(opts, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5))
	}
	for name, value := range a.Properties {
		duration, err := time.ParseDuration(value)
		opt := kgo.ProducerLinger(duration)
		if bytes, wrong := strconv.ParseInt(value, 10, 32); name == "ProducerBatchMaxBytes" {
			opt, err = kgo.ProducerBatchMaxBytes(int32(bytes)), wrong
		} else if name == "ProduceRequestTimeout" { // how long brokers wait for replicas
			opt = kgo.ProduceRequestTimeout(duration)
		}
		opts = append(opts, opt)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", name, value, err)
		}
	}
	return opts, kgo.ValidateOpts(opts...)
}

func run(a asked, opts []kgo.Opt, targets chan int64) {
	client, err := kgo.NewClient(opts...)
	must(err, 1)
	for client.Ping(context.Background()) != nil {
		time.Sleep(100 * tick)
	}
	a.Properties["deduplication"] = strconv.FormatBool(a.Deduplication)
	sayJSON('R', map[string]any{"version": "franz-go " + version, "settings": a.Properties})
	go func() {
		for ; ; time.Sleep(5 * tick) {
			sayOutcomes()
		}
	}()
	for target := range targets {
		for sent.Load() < target && !stopped.Load() {
			if sent.Load()-ended.Load() < a.InFlight {
				send(client, a)
			} else {
				time.Sleep(tick / 10)
			}
		}
		say('S', number(sent.Load()))
	}
	must(client.Flush(context.Background()), 1) // it returns after the last call back
	sayOutcomes()
	say('F', nil)
	os.Exit(0)
}

func send(client *kgo.Client, a asked) {
	index := sent.Add(1) - 1
	partition := int32(index % a.Streams)
	payload := number(int64(partition)<<48 | (index/a.Streams + 1))
	record := kgo.Record{Topic: a.Topic, Partition: partition, Value: payload}
	client.Produce(context.Background(), &record, func(stored *kgo.Record, err error) {
		outcome, offset := byte(0), stored.Offset // ok
		if err != nil {
			outcome, offset = 2, -1 // unknown: it may have left before
			notice("error", -1, "delivery failed: "+err.Error())
		}
		taking.Lock()
		rows = append(append(rows, payload...), outcome)
		rows = append(binary.BigEndian.AppendUint32(rows, uint32(partition)), number(0)...)
		rows = append(append(rows, number(offset)...), 0, 0, 0, 0)
		taking.Unlock()
		ended.Add(1)
	})
}

func obey(in *bufio.Scanner, targets chan int64) {
	for in.Scan() {
		order, text, _ := strings.Cut(in.Text(), " ")
		count, _ := strconv.ParseInt(text, 10, 64) // of `stop` and `finish` there is none
		switch order {
		case "send":
			targets <- count
		case "count":
			sayOutcomes()
			say('C', number(count))
		case "stop":
			stopped.Store(true)
		case "finish":
			close(targets)
		}
	}
	os.Exit(70) // the tester is gone
}

// A witness hears of every connection that ends, and of every Produce without its answer, which is sent again.
type witness struct{}

func (witness) OnBrokerDisconnect(broker kgo.BrokerMetadata, _ net.Conn) {
	notice("disconnect", broker.NodeID, "disconnected from broker "+kgo.NodeName(broker.NodeID))
}

func (witness) OnBrokerE2E(broker kgo.BrokerMetadata, key int16, end kgo.BrokerE2E) {
	if err := end.Err(); err != nil && key == 0 {
		notice("retry", broker.NodeID, "Produce to broker "+kgo.NodeName(broker.NodeID)+": "+err.Error())
	}
}

func notice(kind string, broker int32, detail string) {
	said := map[string]any{"kind": kind, "detail": detail, "unix_ns": time.Now().UnixNano()}
	if broker >= 0 { // those that it was given at first have negative numbers
		said["broker"] = strconv.Itoa(int(broker))
	}
	sayJSON('W', said)
}

func number(of int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(of)) }

// sayOutcomes reads what is sent before it takes the rows: the tester shall count too little in flight, not too much.
// Without rows it says how far we are: while no outcome comes nothing else does.
func sayOutcomes() {
	before := number(sent.Load())
	taking.Lock()
	defer taking.Unlock()
	say('O', append(before, rows...))
	rows = rows[:0]
}

func sayJSON(kind byte, of map[string]any) {
	body, _ := json.Marshal(of) // texts and numbers
	say(kind, body)
}

func say(kind byte, body []byte) {
	writing.Lock()
	defer writing.Unlock()
	_, err := os.Stdout.Write(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body))), body...))
	must(err, 1)
}

func must(err error, code int) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(code)
	}
}
