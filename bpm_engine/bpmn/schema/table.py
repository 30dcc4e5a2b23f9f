"""The vocabulary of BPMN 2.0.2 as one table: every element with its attributes and children.

Written from clauses 7 to 11 of the specification. The structural checks come from this table alone; an
element that is not here does not exist. The notation, one line per fact:

    attributes  name                  free text             children  name    exactly one
                name:boolean          also integer, uri, media         name?   at most one
                name:A|B              one of these                     name*   any number
                name:@process         refers to a process              name+   at least one
                …!                    required                         name?=expression   of that type
                …+                    required, often left out         name*@message      its text refers

A name with a capital letter stands for a group (`FlowNode`). `@~` marks a reference that tools leave
dangling, and that execution does not need; `@~~` one that they also fill with a name, or with an element of
another kind; `@?` one that may lead to another file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

Part: TypeAlias = tuple[str, str]  # attributes, children

# ------------------------------------------------------------------ groups

_TASKS = "task serviceTask sendTask receiveTask userTask manualTask scriptTask businessRuleTask"
_SUBPROCESSES = "subProcess transaction adHocSubProcess"
_GATEWAYS = "exclusiveGateway inclusiveGateway parallelGateway complexGateway eventBasedGateway"
_CATCH = "startEvent intermediateCatchEvent boundaryEvent"
_THROW = "intermediateThrowEvent endEvent implicitThrowEvent"
_DEFINITIONS = (
    "cancelEventDefinition compensateEventDefinition conditionalEventDefinition errorEventDefinition "
    "escalationEventDefinition linkEventDefinition messageEventDefinition signalEventDefinition "
    "terminateEventDefinition timerEventDefinition"
)
_CHOREOGRAPHY_ACTIVITIES = "choreographyTask subChoreography callChoreography"
_DATA = "dataObject dataObjectReference dataStoreReference"
_GLOBAL_TASKS = "globalTask globalUserTask globalManualTask globalScriptTask globalBusinessRuleTask"

_NODES = f"{_TASKS} {_SUBPROCESSES} callActivity {_GATEWAYS} {_CATCH} {_THROW}"

GROUP_MEMBERS: Mapping[str, str] = {
    "Activity": f"{_TASKS} {_SUBPROCESSES} callActivity",
    "Subprocess": _SUBPROCESSES,
    "Gateway": _GATEWAYS,
    "CatchEvent": _CATCH,
    "ThrowEvent": _THROW,
    "Event": f"{_CATCH} {_THROW}",
    "EventDefinition": _DEFINITIONS,
    "FlowNode": _NODES,
    "FlowElement": f"{_NODES} {_DATA} sequenceFlow",
    "ChoreographyActivity": _CHOREOGRAPHY_ACTIVITIES,
    "ChoreographyElement": f"{_CHOREOGRAPHY_ACTIVITIES} {_GATEWAYS} {_CATCH} {_THROW} {_DATA} sequenceFlow",
    "Artifact": "association group textAnnotation",
    "ConversationNode": "conversation subConversation callConversation",
    "Loop": "standardLoopCharacteristics multiInstanceLoopCharacteristics",
    "ResourceRole": "resourceRole performer humanPerformer potentialOwner",
    "ItemAware": (
        "dataObject dataObjectReference dataStore dataStoreReference property dataInput dataOutput "
        "inputDataItem outputDataItem"
    ),
    "Callable": f"process {_GLOBAL_TASKS}",
    "Collaboration": "collaboration globalConversation choreography globalChoreographyTask",
    "RootElement": (
        f"process {_GLOBAL_TASKS} collaboration globalConversation choreography globalChoreographyTask "
        f"category correlationProperty dataStore endPoint error escalation interface itemDefinition message "
        f"partnerEntity partnerRole resource signal {_DEFINITIONS}"
    ),
}

# ------------------------------------------------------------------ parts that several elements share

_BASE = ("id", "documentation* extensionElements?")
_FLOW_ELEMENT = ("name", "auditing? monitoring? categoryValueRef*@~categoryValue")
_FLOW_NODE = ("", "incoming*@~~sequenceFlow outgoing*@~~sequenceFlow")
_ACTIVITY = (
    "isForCompensation:boolean startQuantity:integer completionQuantity:integer default:@sequenceFlow",
    "ioSpecification? property* dataInputAssociation* dataOutputAssociation* ResourceRole* Loop*",
)
_CONTAINER = ("", "laneSet* FlowElement* Artifact*")
_CATCHING = (
    "parallelMultiple:boolean",
    "property* dataOutput* dataOutputAssociation* outputSet? EventDefinition* "
    "eventDefinitionRef*@EventDefinition",
)
_THROWING = (
    "",
    "property* dataInput* dataInputAssociation* inputSet? EventDefinition* "
    "eventDefinitionRef*@EventDefinition",
)
_CALLABLE = ("name", "supportedInterfaceRef*@interface ioSpecification? ioBinding*")
_COLLABORATION = (
    "name isClosed:boolean",
    "participant* messageFlow* Artifact* ConversationNode* conversationAssociation* participantAssociation* "
    "messageFlowAssociation* correlationKey* choreographyRef*@choreography conversationLink*",
)
_CHOREOGRAPHY_NODE = (
    "initiatingParticipantRef:@participant+ "
    "loopType:None|Standard|MultiInstanceSequential|MultiInstanceParallel",
    "participantRef*@participant correlationKey*",
)
_CONVERSATION_NODE = ("name", "participantRef*@participant messageFlowRef*@messageFlow correlationKey*")
_DIRECTION = ("gatewayDirection:Unspecified|Converging|Diverging|Mixed", "")
_ITEM = ("name itemSubjectRef:@itemDefinition isCollection:boolean", "dataState?")
_EXPRESSION = ("id language:uri evaluatesToTypeRef:@?itemDefinition", "documentation* extensionElements?")
_LOOSE = ("id textFormat:media", "")  # mixed content

_NODE = (_BASE, _FLOW_ELEMENT, _FLOW_NODE)
_TASK = (*_NODE, _ACTIVITY)
_SUBPROCESS = (*_TASK, _CONTAINER, ("triggeredByEvent:boolean", ""))
_GATEWAY = (*_NODE, _DIRECTION)
_DATA_ASSOCIATION = (
    "",
    "sourceRef*@~ItemAware targetRef@~ItemAware transformation?=expression assignment*",
)
_OPERATION = ("implementation:uri operationRef:@operation", "")
_MESSAGE = ("messageRef:@message", "")


# ------------------------------------------------------------------ the table

TABLE: dict[str, tuple[Part, ...]] = {
    # Infrastructure and foundation (8.1 to 8.3)
    "definitions": (
        _BASE,
        (
            "name targetNamespace:uri+ expressionLanguage:uri typeLanguage:uri exporter exporterVersion",
            "import* extension* RootElement* relationship*",
        ),
    ),
    "import": (("namespace+ location+ importType+", ""),),
    "extension": (("definition mustUnderstand:boolean", "documentation*"),),
    "relationship": (_BASE, ("type+ direction:None|Forward|Backward|Both", "source+@~ target+@~")),
    "documentation": (_LOOSE,),
    "extensionElements": (("", ""),),
    "auditing": (_BASE,),
    "monitoring": (_BASE,),
    # Common elements (8.4)
    "association": (_BASE, ("sourceRef:@~+ targetRef:@~+ associationDirection:None|One|Both", "")),
    "group": (_BASE, ("categoryValueRef:@~categoryValue", "")),
    "textAnnotation": (_BASE, ("textFormat:media", "text?")),
    "text": (_LOOSE,),
    "category": (_BASE, ("name", "categoryValue*")),
    "categoryValue": (_BASE, ("value", "")),
    "correlationProperty": (_BASE, ("name type", "correlationPropertyRetrievalExpression+")),
    "correlationPropertyRetrievalExpression": (
        _BASE,
        # SpiffWorkflow's modeller writes the path as a formalExpression
        ("messageRef:@message!", "messagePath=expression formalExpression?=expression"),
    ),
    "correlationKey": (_BASE, ("name", "correlationPropertyRef*@correlationProperty")),
    "correlationSubscription": (
        _BASE,
        ("correlationKeyRef:@correlationKey!", "correlationPropertyBinding*"),
    ),
    "correlationPropertyBinding": (
        _BASE,
        ("correlationPropertyRef:@correlationProperty!", "dataPath=expression"),
    ),
    "error": (_BASE, ("name errorCode structureRef:@?itemDefinition", "")),
    "escalation": (_BASE, ("name escalationCode structureRef:@?itemDefinition", "")),
    "signal": (_BASE, ("name structureRef:@?itemDefinition", "")),
    "message": (_BASE, ("name itemRef:@itemDefinition", "")),
    "itemDefinition": (_BASE, ("structureRef isCollection:boolean itemKind:Information|Physical", "")),
    "expression": (_EXPRESSION,),
    "formalExpression": (_EXPRESSION,),
    "resource": (_BASE, ("name", "resourceParameter*")),
    "resourceParameter": (_BASE, ("name type:@?itemDefinition isRequired:boolean", "")),
    "sequenceFlow": (
        _BASE,
        _FLOW_ELEMENT,
        (
            "sourceRef:@FlowNode,ChoreographyActivity! targetRef:@FlowNode,ChoreographyActivity! "
            "isImmediate:boolean",
            "conditionExpression?=expression",
        ),
    ),
    "interface": (_BASE, ("name+ implementationRef", "operation+")),
    "operation": (
        _BASE,
        ("name+ implementationRef", "inMessageRef@message outMessageRef?@message errorRef*@error"),
    ),
    "endPoint": (_BASE,),
    # Collaboration (9), conversation and choreography (11)
    "collaboration": (_BASE, _COLLABORATION),
    "globalConversation": (_BASE, _COLLABORATION),
    "choreography": (_BASE, _COLLABORATION, ("", "ChoreographyElement*")),
    "globalChoreographyTask": (_BASE, _COLLABORATION, ("initiatingParticipantRef:@participant+", "")),
    "participant": (
        _BASE,
        (
            "name processRef:@process",
            "interfaceRef*@interface endPointRef*@endPoint participantMultiplicity?",
        ),
    ),
    "participantMultiplicity": (_BASE, ("minimum:integer maximum:integer", "")),
    "participantAssociation": (
        _BASE,
        ("", "innerParticipantRef@participant outerParticipantRef@participant"),
    ),
    "partnerEntity": (_BASE, ("name", "participantRef*@participant")),
    "partnerRole": (_BASE, ("name", "participantRef*@participant")),
    "messageFlow": (
        _BASE,
        (
            "name sourceRef:@participant,Activity,Event! targetRef:@participant,Activity,Event! "
            "messageRef:@message",
            "",
        ),
    ),
    "messageFlowAssociation": (
        _BASE,
        ("innerMessageFlowRef:@messageFlow! outerMessageFlowRef:@messageFlow!", ""),
    ),
    "conversation": (_BASE, _CONVERSATION_NODE),
    "subConversation": (_BASE, _CONVERSATION_NODE, ("", "ConversationNode*")),
    "callConversation": (
        _BASE,
        _CONVERSATION_NODE,
        ("calledCollaborationRef:@?Collaboration", "participantAssociation*"),
    ),
    "conversationAssociation": (
        _BASE,
        ("innerConversationNodeRef:@ConversationNode! outerConversationNodeRef:@ConversationNode!", ""),
    ),
    "conversationLink": (
        _BASE,
        (
            "name sourceRef:@participant,ConversationNode,Activity,Event! "
            "targetRef:@participant,ConversationNode,Activity,Event!",
            "",
        ),
    ),
    "choreographyTask": (*_NODE, _CHOREOGRAPHY_NODE, ("", "messageFlowRef*@messageFlow")),
    "subChoreography": (*_NODE, _CHOREOGRAPHY_NODE, ("", "ChoreographyElement* Artifact*")),
    "callChoreography": (
        *_NODE,
        _CHOREOGRAPHY_NODE,
        ("calledChoreographyRef:@?Collaboration", "participantAssociation*"),
    ),
    # Process and callable elements (10.2, 10.3)
    "process": (
        _BASE,
        _CALLABLE,
        _CONTAINER,
        (
            "processType:None|Public|Private isClosed:boolean isExecutable:boolean "
            "definitionalCollaborationRef:@~Collaboration",
            "auditing? monitoring? property* ResourceRole* correlationSubscription* supports*@~process",
        ),
    ),
    "globalTask": (_BASE, _CALLABLE, ("", "ResourceRole*")),
    "globalUserTask": (_BASE, _CALLABLE, ("implementation:uri", "ResourceRole* rendering*")),
    "globalManualTask": (_BASE, _CALLABLE, ("", "ResourceRole*")),
    "globalScriptTask": (_BASE, _CALLABLE, ("scriptLanguage", "ResourceRole* script?")),
    "globalBusinessRuleTask": (_BASE, _CALLABLE, ("implementation:uri", "ResourceRole*")),
    "laneSet": (_BASE, ("name", "lane*")),
    "lane": (
        _BASE,
        ("name partitionElementRef:@~", "partitionElement? flowNodeRef*@~~FlowNode childLaneSet?=laneSet"),
    ),
    "partitionElement": (_LOOSE,),
    "task": _TASK,
    "serviceTask": (*_TASK, _OPERATION),
    "sendTask": (*_TASK, _OPERATION, _MESSAGE),
    "receiveTask": (*_TASK, _OPERATION, _MESSAGE, ("instantiate:boolean", "")),
    "userTask": (*_TASK, ("implementation:uri", "rendering*")),
    "manualTask": _TASK,
    "scriptTask": (*_TASK, ("scriptFormat", "script?")),
    "businessRuleTask": (*_TASK, ("implementation:uri", "")),
    "rendering": (_LOOSE,),
    "script": (_LOOSE,),
    "subProcess": _SUBPROCESS,
    "transaction": (*_SUBPROCESS, ("method:uri", "")),
    "adHocSubProcess": (
        *_SUBPROCESS,
        (
            "cancelRemainingInstances:boolean ordering:Parallel|Sequential",
            "completionCondition?=expression",
        ),
    ),
    "callActivity": (*_TASK, ("calledElement:@?Callable", "")),
    "resourceRole": (
        _BASE,
        ("name", "resourceRef?@~resource resourceParameterBinding* resourceAssignmentExpression?"),
    ),
    "resourceAssignmentExpression": (_BASE, ("", "expression? formalExpression?")),
    "resourceParameterBinding": (
        _BASE,
        ("parameterRef:@resourceParameter!", "expression? formalExpression?"),
    ),
    "standardLoopCharacteristics": (
        _BASE,
        ("testBefore:boolean loopMaximum:integer", "loopCondition?=expression"),
    ),
    "multiInstanceLoopCharacteristics": (
        _BASE,
        (
            "isSequential:boolean behavior:None|One|All|Complex oneBehaviorEventRef:@EventDefinition "
            "noneBehaviorEventRef:@EventDefinition",
            "loopCardinality?=expression loopDataInputRef?@~ItemAware loopDataOutputRef?@~ItemAware "
            "inputDataItem? outputDataItem? complexBehaviorDefinition* completionCondition?=expression",
        ),
    ),
    "complexBehaviorDefinition": (_BASE, ("", "condition=expression event?=implicitThrowEvent")),
    # Data (10.4)
    "dataObject": (
        _BASE,
        _FLOW_ELEMENT,
        ("itemSubjectRef:@itemDefinition isCollection:boolean", "dataState?"),
    ),
    "dataObjectReference": (
        _BASE,
        _FLOW_ELEMENT,
        ("itemSubjectRef:@itemDefinition dataObjectRef:@dataObject", "dataState?"),
    ),
    "dataStore": (
        _BASE,
        ("name capacity:integer isUnlimited:boolean itemSubjectRef:@itemDefinition", "dataState?"),
    ),
    "dataStoreReference": (
        _BASE,
        _FLOW_ELEMENT,
        ("itemSubjectRef:@itemDefinition dataStoreRef:@dataStore", "dataState?"),
    ),
    "dataState": (_BASE, ("name", "")),
    "property": (_BASE, ("name itemSubjectRef:@itemDefinition", "dataState?")),
    "ioSpecification": (_BASE, ("", "dataInput* dataOutput* inputSet+ outputSet+")),
    "ioBinding": (
        _BASE,
        (
            "operationRef:@operation! inputDataRef:@dataInput,inputSet! outputDataRef:@dataOutput,outputSet!",
            "",
        ),
    ),
    "dataInput": (_BASE, _ITEM),
    "dataOutput": (_BASE, _ITEM),
    "inputDataItem": (_BASE, _ITEM),
    "outputDataItem": (_BASE, _ITEM),
    "inputSet": (
        _BASE,
        (
            "name",
            "dataInputRefs*@dataInput optionalInputRefs*@dataInput whileExecutingInputRefs*@dataInput "
            "outputSetRefs*@outputSet",
        ),
    ),
    "outputSet": (
        _BASE,
        (
            "name",
            "dataOutputRefs*@dataOutput optionalOutputRefs*@dataOutput whileExecutingOutputRefs*@dataOutput "
            "inputSetRefs*@inputSet",
        ),
    ),
    "dataInputAssociation": (_BASE, _DATA_ASSOCIATION),
    "dataOutputAssociation": (_BASE, _DATA_ASSOCIATION),
    "assignment": (_BASE, ("", "from=expression to=expression")),
    # Events (10.5)
    "startEvent": (*_NODE, _CATCHING, ("isInterrupting:boolean", "")),
    "intermediateCatchEvent": (*_NODE, _CATCHING),
    "boundaryEvent": (*_NODE, _CATCHING, ("cancelActivity:boolean attachedToRef:@Activity!", "")),
    "intermediateThrowEvent": (*_NODE, _THROWING),
    "endEvent": (*_NODE, _THROWING),
    "implicitThrowEvent": (*_NODE, _THROWING),
    "cancelEventDefinition": (_BASE,),
    "compensateEventDefinition": (_BASE, ("waitForCompletion:boolean activityRef:@Activity", "")),
    "conditionalEventDefinition": (_BASE, ("", "condition?=expression")),
    # Several engines read an undeclared errorRef as the error code, an undeclared signalRef as its name.
    "errorEventDefinition": (_BASE, ("errorRef:@~~error", "")),
    "escalationEventDefinition": (_BASE, ("escalationRef:@escalation", "")),
    "linkEventDefinition": (
        _BASE,
        ("name+", "source*@~linkEventDefinition,Event target?@~linkEventDefinition,Event"),
    ),
    "messageEventDefinition": (_BASE, _MESSAGE, ("", "operationRef?@operation")),
    "signalEventDefinition": (_BASE, ("signalRef:@~~signal", "")),
    "terminateEventDefinition": (_BASE,),
    "timerEventDefinition": (
        _BASE,
        ("", "timeDate?=expression timeDuration?=expression timeCycle?=expression"),
    ),
    # Gateways (10.6)
    "exclusiveGateway": (*_GATEWAY, ("default:@sequenceFlow", "")),
    "inclusiveGateway": (*_GATEWAY, ("default:@sequenceFlow", "")),
    "parallelGateway": _GATEWAY,
    "complexGateway": (*_GATEWAY, ("default:@sequenceFlow", "activationCondition?=expression")),
    "eventBasedGateway": (
        *_GATEWAY,
        ("instantiate:boolean eventGatewayType:Exclusive|Parallel", ""),
    ),
}
for _role in ("performer", "humanPerformer", "potentialOwner"):
    TABLE[_role] = TABLE["resourceRole"]
