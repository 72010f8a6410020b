#include "serve/api.h"

namespace lathe::serve {

const char* const kOpenApiDocument = R"json({
 "openapi": "3.1.0",
 "info": {
  "title": "Lathe",
  "version": "1",
  "description": "Verdicts on candidate kernels: correct or not, how fast, and why. docs/service.md has the semantics. A path that takes GET takes HEAD; other methods than a path's are answered with 405, and Allow names its own. Other parameters than a path's in a query are refused."
 },
 "security": [{"token": []}],
 "paths": {
  "/v1/evaluations": {
   "post": {
    "operationId": "submit",
    "summary": "Submit one candidate. Durable once answered; the same request again is the same evaluation.",
    "parameters": [
     {
      "name": "base",
      "in": "query",
      "description": "An evaluation of the same task, by its id: the answer's over_base says by how much this one is faster.",
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     },
     {
      "name": "peer",
      "in": "query",
      "description": "With reward, the peer that its evidence will be asked for: one that no device has is refused at once, one that a task does not have with that task's submission.",
      "schema": {"type": "string"}
     },
     {
      "name": "reward",
      "in": "query",
      "description": "The reward that its evidence will be asked for, which is in the answer if that has the verdict. One that is not there, or that verdicts of the depth say too little for, is refused at once.",
      "schema": {"type": "string"}
     },
     {
      "name": "wait",
      "in": "query",
      "description": "Seconds to wait for an answer.",
      "schema": {"type": "number", "minimum": 0, "maximum": 60, "default": 0}
     }
    ],
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Submission"}}}
    },
    "responses": {
     "200": {
      "description": "Its verdict.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluation"}}}
     },
     "202": {
      "description": "It is on its way.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluation"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "413": {"$ref": "#/components/responses/BodyTooLarge"},
     "415": {"$ref": "#/components/responses/NotJson"},
     "429": {"$ref": "#/components/responses/Full"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   },
   "get": {
    "operationId": "listFinished",
    "summary": "The client's finished requests in order of completion.",
    "parameters": [
     {
      "name": "client",
      "in": "query",
      "description": "Whose: tokens of the roles read and admin may name others.",
      "schema": {"type": "string"}
     },
     {
      "name": "after",
      "in": "query",
      "description": "A sequence number that this client has seen.",
      "schema": {"type": "integer", "minimum": 0, "default": 0}
     },
     {
      "name": "limit",
      "in": "query",
      "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
     },
     {
      "name": "wait",
      "in": "query",
      "description": "Seconds to wait for an answer.",
      "schema": {"type": "number", "minimum": 0, "maximum": 60, "default": 0}
     }
    ],
    "responses": {
     "200": {
      "description": "Those that finished later.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluations"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/v1/evaluations/batch": {
   "post": {
    "operationId": "submitBatch",
    "summary": "Submit up to 1024 candidates. What is wrong with one does not keep the others.",
    "parameters": [
     {
      "name": "peer",
      "in": "query",
      "description": "With reward, the peer that its evidence will be asked for: one that no device has is refused at once, one that a task does not have with that task's submission.",
      "schema": {"type": "string"}
     },
     {
      "name": "reward",
      "in": "query",
      "description": "The reward that its evidence will be asked for, which is in the answer if that has the verdict. One that is not there, or that verdicts of the depth say too little for, is refused at once.",
      "schema": {"type": "string"}
     }
    ],
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Batch"}}}
    },
    "responses": {
     "202": {
      "description": "What became of each, in order.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Receipts"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "413": {"$ref": "#/components/responses/BodyTooLarge"},
     "415": {"$ref": "#/components/responses/NotJson"},
     "429": {
      "description": "The queue, or the client's share of it, took none; what became of each.",
      "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Receipts"}}}
     },
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/v1/evaluations/{id}": {
   "get": {
    "operationId": "show",
    "summary": "State and verdict of a request of this client.",
    "parameters": [
     {
      "name": "base",
      "in": "query",
      "description": "An evaluation of the same task, by its id: the answer's over_base says by how much this one is faster.",
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     },
     {
      "name": "client",
      "in": "query",
      "description": "Whose: tokens of the roles read and admin may name others.",
      "schema": {"type": "string"}
     },
     {
      "name": "id",
      "in": "path",
      "required": true,
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     },
     {
      "name": "wait",
      "in": "query",
      "description": "Seconds to wait for an answer.",
      "schema": {"type": "number", "minimum": 0, "maximum": 60, "default": 0}
     }
    ],
    "responses": {
     "200": {
      "description": "It is final.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluation"}}}
     },
     "202": {
      "description": "It is not final yet.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluation"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "404": {
      "description": "There is no such evaluation of this client.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   },
   "delete": {
    "operationId": "cancel",
    "summary": "Cancel this client's request; work that nobody else wants stops.",
    "parameters": [
     {
      "name": "client",
      "in": "query",
      "description": "Whose: tokens of the roles read and admin may name others.",
      "schema": {"type": "string"}
     },
     {
      "name": "id",
      "in": "path",
      "required": true,
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     }
    ],
    "responses": {
     "200": {
      "description": "How it ended.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evaluation"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "404": {
      "description": "There is no such evaluation of this client.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/v1/evaluations/{id}/evidence": {
   "get": {
    "operationId": "evidence",
    "summary": "The whole verdict, and what the author of a kernel should know of it.",
    "parameters": [
     {
      "name": "base",
      "in": "query",
      "description": "An evaluation of the same task, by its id: the answer's over_base says by how much this one is faster.",
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     },
     {
      "name": "client",
      "in": "query",
      "description": "Whose: tokens of the roles read and admin may name others.",
      "schema": {"type": "string"}
     },
     {
      "name": "id",
      "in": "path",
      "required": true,
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     },
     {
      "name": "reward",
      "in": "query",
      "description": "A named reward (docs/rl.md); its value is the answer's reward, of INFRA there is retry instead.",
      "schema": {
       "enum": [
        "correct",
        "cuda_l2",
        "dr_kernel",
        "dr_kernel_profiled",
        "fast_1",
        "fast_1.2",
        "fast_1.5",
        "fast_2",
        "log_speedup",
        "roofline",
        "speedup"
       ]
      }
     },
     {
      "name": "peer",
      "in": "query",
      "description": "The baseline that the reward's speedup is over; absent, the smallest over all counts.",
      "schema": {"type": "string"}
     }
    ],
    "responses": {
     "200": {
      "description": "The evidence.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Evidence"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "404": {
      "description": "There is no such evaluation of this client.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/v1/events": {
   "get": {
    "operationId": "events",
    "summary": "Server-sent events, one for each of the client's requests that finishes, in order of completion. Last-Event-ID resumes.",
    "parameters": [
     {
      "name": "client",
      "in": "query",
      "description": "Whose: tokens of the roles read and admin may name others.",
      "schema": {"type": "string"}
     },
     {
      "name": "after",
      "in": "query",
      "description": "A sequence number that this client has seen.",
      "schema": {"type": "integer", "minimum": 0, "default": 0}
     }
    ],
    "responses": {
     "200": {
      "description": "Events of type evaluation; data is an Evaluation, id its sequence.",
      "content": {"text/event-stream": {"schema": {"type": "string"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/v1/device": {
   "get": {
    "operationId": "device",
    "summary": "What a worker of this front end measured its device to be: for schedules and prompts. Every verdict has the device of its own evaluation.",
    "responses": {
     "200": {
      "description": "The device.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Measured"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {
      "description": "No worker has measured its device yet, or there are too many connections.",
      "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     }
    }
   }
  },
  "/v1/tasks": {
   "get": {
    "operationId": "listTasks",
    "summary": "The tasks that are known by name.",
    "responses": {
     "200": {
      "description": "Names and digests.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tasks"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/v1/tasks/{id}": {
   "get": {
    "operationId": "showTask",
    "summary": "A task that is known by name, in the form of a submission's task.",
    "parameters": [
     {
      "name": "id",
      "in": "path",
      "required": true,
      "description": "Its name or digest.",
      "schema": {"type": "string"}
     }
    ],
    "responses": {
     "200": {
      "description": "Its text.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Task"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "404": {
      "description": "There is no task of that name or digest.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/v1/workers": {
   "post": {
    "operationId": "workerJoins",
    "summary": "A worker begins a session. It lasts as long as the worker beats, at least once in 5 seconds.",
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/WorkerJoin"}}}
    },
    "responses": {
     "200": {
      "description": "The session.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/WorkerSession"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "409": {
      "description": "The worker's device or version of the gym is another one; the message says which.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "413": {"$ref": "#/components/responses/BodyTooLarge"},
     "415": {"$ref": "#/components/responses/NotJson"},
     "429": {
      "description": "There are too many workers.",
      "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/v1/workers/{id}": {
   "delete": {
    "operationId": "workerEnds",
    "summary": "The worker has ended; what it had in hand waits again.",
    "parameters": [
     {
      "name": "id",
      "in": "path",
      "required": true,
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     },
     {
      "name": "end",
      "in": "query",
      "required": true,
      "description": "Whether it was asked to end, or by what it ended with evaluations in hand.",
      "schema": {"enum": ["asked", "failed", "killed"]}
     }
    ],
    "responses": {
     "200": {
      "description": "It has ended.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "404": {
      "description": "There is no such session of this client: begin another one.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/v1/workers/{id}/messages": {
   "get": {
    "operationId": "workerListens",
    "summary": "What there is for the worker.",
    "parameters": [
     {
      "name": "id",
      "in": "path",
      "required": true,
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     },
     {
      "name": "after",
      "in": "query",
      "description": "Number of the last message that has arrived; those up to it are not sent again.",
      "schema": {"type": "integer", "minimum": 0, "default": 0}
     },
     {
      "name": "wait",
      "in": "query",
      "description": "Seconds to wait for a message.",
      "schema": {"type": "number", "minimum": 0, "maximum": 60, "default": 0}
     }
    ],
    "responses": {
     "200": {
      "description": "Messages in their order; none after the wait.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/FrontBatch"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "404": {
      "description": "There is no such session of this client: begin another one.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "410": {
      "description": "The service has ended the session: the worker was silent, or answered something else than it was asked.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   },
   "post": {
    "operationId": "workerSays",
    "summary": "What the worker says. Messages that came before, by their number, count once.",
    "parameters": [
     {
      "name": "id",
      "in": "path",
      "required": true,
      "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"}
     }
    ],
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/WorkerBatch"}}}
    },
    "responses": {
     "200": {
      "description": "How far they have come.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/WorkerReceipt"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "404": {
      "description": "There is no such session of this client: begin another one.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "410": {
      "description": "The service has ended the session: the worker was silent, or answered something else than it was asked.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
     },
     "413": {"$ref": "#/components/responses/BodyTooLarge"},
     "415": {"$ref": "#/components/responses/NotJson"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/metrics": {
   "get": {
    "operationId": "metrics",
    "summary": "Metrics in Prometheus' text format.",
    "responses": {
     "200": {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}},
     "400": {"$ref": "#/components/responses/Invalid"},
     "401": {"$ref": "#/components/responses/Unauthorized"},
     "403": {"$ref": "#/components/responses/Forbidden"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/healthz": {
   "get": {
    "operationId": "alive",
    "summary": "Whether the process answers.",
    "security": [],
    "responses": {
     "200": {
      "description": "It does.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  },
  "/readyz": {
   "get": {
    "operationId": "ready",
    "summary": "Whether the store takes writes and a worker is there; where front ends share a queue, it may be at another one.",
    "security": [],
    "responses": {
     "200": {
      "description": "Yes.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {
      "description": "No; or there are too many connections.",
      "content": {
       "application/json": {
        "schema": {
         "oneOf": [{"$ref": "#/components/schemas/Status"}, {"$ref": "#/components/schemas/Fault"}]
        }
       }
      }
     }
    }
   }
  },
  "/openapi.json": {
   "get": {
    "operationId": "document",
    "summary": "This document.",
    "security": [],
    "responses": {
     "200": {
      "description": "The document.",
      "content": {"application/json": {"schema": {"type": "object"}}}
     },
     "400": {"$ref": "#/components/responses/Invalid"},
     "431": {"$ref": "#/components/responses/HeaderTooLarge"},
     "500": {"$ref": "#/components/responses/Broken"},
     "503": {"$ref": "#/components/responses/Unavailable"}
    }
   }
  }
 },
 "components": {
  "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
  "responses": {
   "Invalid": {
    "description": "The request is wrong; the message says where.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
   },
   "Unauthorized": {
    "description": "No valid token.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
   },
   "Forbidden": {
    "description": "The token's role does not suffice; without tokens, the request is not for this machine's name.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
   },
   "BodyTooLarge": {
    "description": "The body is too large.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
   },
   "NotJson": {
    "description": "The body is not JSON.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
   },
   "Full": {
    "description": "The queue, or the client's share of it, is full: the message says which.",
    "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
   },
   "HeaderTooLarge": {
    "description": "The header is too large.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
   },
   "Broken": {
    "description": "A fault of the service.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
   },
   "Unavailable": {
    "description": "The service cannot do that now, or has too many connections.",
    "headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
   }
  },
  "schemas": {
   "Submission": {
    "type": "object",
    "additionalProperties": false,
    "required": ["task"],
    "properties": {
     "task": {
      "description": "A name or a digest; or one of both, or the task's TOML text, by field. A process task's module is in files, by the name that its TOML has.",
      "oneOf": [
       {"type": "string"},
       {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 2,
        "additionalProperties": false,
        "dependentRequired": {"files": ["toml"]},
        "properties": {
         "name": {"type": "string"},
         "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
         "toml": {"type": "string", "maxLength": 262144},
         "files": {
          "type": "object",
          "maxProperties": 1,
          "additionalProperties": {"type": "string", "maxLength": 262144}
         }
        }
       }
      ]
     },
     "candidate": {
      "type": "string",
      "maxLength": 1048576,
      "description": "The kernel's text, front matter included. This or an answer."
     },
     "answer": {
      "type": "string",
      "description": "What a language model said: the candidate is the last fenced block that has front matter."
     },
     "depth": {"enum": ["build", "verify", "screen", "final", "profile"], "default": "screen"},
     "priority": {
      "type": "integer",
      "minimum": -100,
      "maximum": 100,
      "default": 0,
      "description": "Higher first, among the client's own."
     },
     "deadline_seconds": {
      "type": "number",
      "minimum": 0,
      "maximum": 2592000,
      "default": 0,
      "description": "From now on; 0 is none."
     },
     "tag": {
      "type": "string",
      "maxLength": 256,
      "default": "",
      "description": "Given back with the answer; while a client has the same evaluation under way or answered, the first one's."
     }
    }
   },
   "Batch": {
    "type": "object",
    "additionalProperties": false,
    "required": ["items"],
    "properties": {
     "items": {
      "type": "array",
      "minItems": 1,
      "maxItems": 1024,
      "items": {"$ref": "#/components/schemas/Submission"}
     }
    }
   },
   "Evaluation": {
    "type": "object",
    "required": [
     "id",
     "state",
     "tag",
     "priority",
     "task",
     "candidate",
     "depth",
     "device_kind",
     "gym_version",
     "submitted_unix_ms"
    ],
    "properties": {
     "id": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
     "state": {"enum": ["queued", "running", "done", "failed", "cancelled", "expired"]},
     "tag": {"type": "string"},
     "priority": {"type": "integer"},
     "task": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
     "candidate": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
     "depth": {"enum": ["build", "verify", "screen", "final", "profile"]},
     "device_kind": {"type": "string"},
     "gym_version": {"type": "string"},
     "submitted_unix_ms": {"type": "integer"},
     "finished_unix_ms": {"type": "integer"},
     "sequence": {"type": "integer"},
     "verdict": {"$ref": "#/components/schemas/Verdict"},
     "reward": {"type": "number", "description": "Where its submission asked for one and waited for the verdict."},
     "retry": {
      "type": "boolean",
      "description": "Instead of the reward, of INFRA: nothing is known of the candidate; submit it again."
     },
     "over_base": {
      "description": "Where a base was named: by how much this kernel is faster than that of the base, the quotient of their speedups over the naive build with the outermost bounds; null where either did not pass or was not timed.",
      "anyOf": [
       {
        "type": "object",
        "required": ["low", "mid", "high"],
        "properties": {"low": {"type": "number"}, "mid": {"type": "number"}, "high": {"type": "number"}}
       },
       {"type": "null"}
      ]
     },
     "error": {"type": "string"}
    }
   },
   "Verdict": {
    "type": "object",
    "required": ["outcome", "reason", "detail", "speedups"],
    "properties": {
     "outcome": {
      "enum": ["PASS", "BUILD_FAILED", "WRONG", "CRASH", "TIMEOUT", "TAMPERED", "SUSPECT", "INFRA"]
     },
     "reason": {"type": "string"},
     "detail": {"type": "string"},
     "median_ns": {"type": "number"},
     "speedups": {
      "type": "object",
      "description": "By baseline.",
      "additionalProperties": {"$ref": "#/components/schemas/Interval"}
     }
    }
   },
   "Interval": {
    "type": "object",
    "required": ["low", "mid", "high"],
    "properties": {"low": {"type": "number"}, "mid": {"type": "number"}, "high": {"type": "number"}}
   },
   "Evaluations": {
    "type": "object",
    "required": ["items"],
    "properties": {"items": {"type": "array", "items": {"$ref": "#/components/schemas/Evaluation"}}}
   },
   "Receipts": {
    "type": "object",
    "required": ["items"],
    "properties": {
     "items": {
      "type": "array",
      "items": {
       "oneOf": [
        {
         "type": "object",
         "required": ["id", "state"],
         "properties": {
          "id": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
          "state": {"enum": ["queued", "done"]}
         }
        },
        {"$ref": "#/components/schemas/Fault"}
       ]
      }
     }
    }
   },
   "Evidence": {
    "type": "object",
    "required": ["id", "state"],
    "properties": {
     "id": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
     "state": {"type": "string"},
     "verdict": {"type": "object", "description": "docs/json.md"},
     "feedback": {"type": "string"},
     "reward": {"type": "number", "description": "As asked for; never of INFRA."},
     "retry": {
      "type": "boolean",
      "description": "INFRA: nothing is known of the candidate; submit it again."
     },
     "over_base": {
      "description": "Where a base was named: by how much this kernel is faster than that of the base, the quotient of their speedups over the naive build with the outermost bounds; null where either did not pass or was not timed.",
      "anyOf": [
       {
        "type": "object",
        "required": ["low", "mid", "high"],
        "properties": {"low": {"type": "number"}, "mid": {"type": "number"}, "high": {"type": "number"}}
       },
       {"type": "null"}
      ]
     }
    }
   },
   "Measured": {
    "type": "object",
    "required": ["gym_version", "device"],
    "properties": {"gym_version": {"type": "string"}, "device": {"$ref": "#/components/schemas/Device"}}
   },
   "Device": {
    "type": "object",
    "required": [
     "kind",
     "cuda",
     "name",
     "threads",
     "facts",
     "flops_per_second",
     "tensor_flops_per_second",
     "levels"
    ],
    "properties": {
     "kind": {"type": "string", "description": "cpu, cuda, host:cpu or host:cuda: of its evaluations."},
     "cuda": {"type": "boolean", "description": "Kernels are CUDA."},
     "name": {"type": "string"},
     "jail": {"type": "string"},
     "threads": {"type": "integer", "description": "That a candidate may use."},
     "lanes": {"type": "integer", "description": "Evaluations that a worker is glad to have at once."},
     "facts": {
      "type": "object",
      "description": "What plans may compute with: l2_bytes, ...",
      "additionalProperties": {"type": "number"}
     },
     "flops_per_second": {"type": "number"},
     "tensor_flops_per_second": {"type": "number"},
     "levels": {
      "type": "array",
      "description": "Of memory, the fastest first.",
      "items": {
       "type": "object",
       "required": ["name", "capacity_bytes", "bytes_per_second"],
       "properties": {
        "name": {"type": "string"},
        "capacity_bytes": {"type": "number"},
        "bytes_per_second": {"type": "number"}
       }
      }
     }
    }
   },
   "Tasks": {
    "type": "object",
    "required": ["items"],
    "properties": {
     "items": {
      "type": "array",
      "items": {
       "type": "object",
       "required": ["name", "digest"],
       "properties": {"name": {"type": "string"}, "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}
      }
     }
    }
   },
   "Task": {
    "type": "object",
    "required": ["name", "digest", "toml"],
    "properties": {
     "name": {"type": "string"},
     "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
     "toml": {"type": "string"},
     "files": {"description": "A process reference's file, by its name.", "type": "object"}
    }
   },
   "WorkerJoin": {
    "type": "object",
    "required": ["name", "hello"],
    "properties": {
     "name": {
      "type": "string",
      "pattern": "^[-A-Za-z0-9_.:/]{1,128}$",
      "description": "For logs and metrics."
     },
     "hello": {"$ref": "#/components/schemas/WorkerHello"}
    }
   },
   "WorkerHello": {
    "type": "object",
    "required": ["type", "protocol", "device_kind", "gym_version", "device_name", "slots"],
    "properties": {
     "type": {"enum": ["hello"]},
     "protocol": {"enum": [2]},
     "device_kind": {"type": "string"},
     "gym_version": {"type": "string"},
     "device_name": {"type": "string"},
     "slots": {
      "type": "integer",
      "minimum": 1,
      "maximum": 1024,
      "description": "Evaluations that it wants to have at once."
     }
    }
   },
   "WorkerSession": {
    "type": "object",
    "required": ["session"],
    "properties": {"session": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}
   },
   "WorkerBatch": {
    "type": "object",
    "required": ["first", "messages"],
    "properties": {
     "first": {
      "type": "integer",
      "minimum": 1,
      "description": "Number of the first message; each session counts from 1."
     },
     "messages": {
      "type": "array",
      "maxItems": 4096,
      "items": {
       "oneOf": [
        {
         "type": "object",
         "description": "The worker lives: all its leases begin anew.",
         "required": ["type", "busy_seconds"],
         "properties": {
          "type": {"enum": ["beat"]},
          "busy_seconds": {"type": "number", "description": "Of its device, since its start."}
         }
        },
        {
         "type": "object",
         "description": "With a verdict (docs/json.md), or the error that there is none.",
         "required": ["type", "lease"],
         "properties": {
          "type": {"enum": ["answer"]},
          "lease": {"type": "integer"},
          "verdict": {"type": "object"},
          "error": {
           "type": "object",
           "required": ["code", "message"],
           "properties": {"code": {"type": "string"}, "message": {"type": "string"}}
          }
         }
        },
        {
         "type": "object",
         "description": "What it measured its device to be; once in a session.",
         "required": ["type", "device"],
         "properties": {"type": {"enum": ["device"]}, "device": {"$ref": "#/components/schemas/Device"}}
        },
        {
         "type": "object",
         "description": "It takes no more work.",
         "required": ["type"],
         "properties": {"type": {"enum": ["leaves"]}}
        }
       ]
      }
     }
    }
   },
   "WorkerReceipt": {
    "type": "object",
    "required": ["received"],
    "properties": {
     "received": {"type": "integer", "description": "Number of the last message that has come."}
    }
   },
   "FrontBatch": {
    "type": "object",
    "required": ["first", "messages"],
    "properties": {
     "first": {"type": "integer", "minimum": 1, "description": "Number of the first message."},
     "messages": {
      "type": "array",
      "items": {
       "oneOf": [
        {
         "type": "object",
         "description": "To be evaluated, under a lease.",
         "required": [
          "type",
          "lease",
          "id",
          "trace",
          "task",
          "task_name",
          "task_text",
          "candidate",
          "depth",
          "deadline_seconds"
         ],
         "properties": {
          "type": {"enum": ["order"]},
          "lease": {"type": "integer"},
          "id": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
          "trace": {"type": "string"},
          "task": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
          "task_name": {"type": "string"},
          "task_text": {"type": "string"},
          "candidate": {"type": "string"},
          "depth": {"enum": ["build", "verify", "screen", "final", "profile"]},
          "deadline_seconds": {"type": "number", "description": "From now on; 0 is none."}
         }
        },
        {
         "type": "object",
         "description": "The answer under this lease is not wanted any more.",
         "required": ["type", "lease"],
         "properties": {"type": {"enum": ["cancel"]}, "lease": {"type": "integer"}}
        }
       ]
      }
     }
    }
   },
   "Status": {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}},
   "Fault": {
    "type": "object",
    "required": ["error"],
    "properties": {
     "error": {
      "type": "object",
      "required": ["code", "message", "request_id"],
      "properties": {
       "code": {"type": "string"},
       "message": {"type": "string"},
       "request_id": {"type": "string"}
      }
     }
    }
   }
  }
 }
})json";

}  // namespace lathe::serve
